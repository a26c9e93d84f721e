// Package objecttest has object stores for tests. In this process it runs a web server and a double of the Hugging
// Face hub's file API, both with faults. As processes it runs real servers of S3, Google Cloud Storage and Azure.
package objecttest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fault is the fault of a request.
type Fault struct {
	Status int   // status of the response; 0 for none
	After  int64 // bytes of the response before the connection is cut, if Cut is set
	Cut    bool
	Header http.Header
}

// Web serves objects over HTTP, with ranges, ETags and If-Match.
type Web struct {
	*httptest.Server

	mu       sync.Mutex
	objects  map[string][]byte
	faults   func(r *http.Request) Fault
	requests []*http.Request
	whole    bool // no ranges
}

// NewWeb starts a server, which stops at the end of the test.
func NewWeb(tb testing.TB) *Web {
	w := &Web{objects: map[string][]byte{}}
	w.Server = httptest.NewServer(w)
	tb.Cleanup(w.Close)
	return w
}

// Put stores an object at a path such as /a/b.jsonl.
func (w *Web) Put(path string, data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects[path] = data
}

// Faults sets a function that returns the fault of each request.
func (w *Web) Faults(f func(r *http.Request) Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = f
}

// NoRanges makes the server respond with whole objects.
func (w *Web) NoRanges() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole = true
}

// Requests returns the requests received so far.
func (w *Web) Requests() []*http.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*http.Request(nil), w.requests...)
}

// Requested returns how many bytes of an object the requests so far were for, and the number of these requests. A
// request without a range is for the whole object.
func (w *Web) Requested(path string) (bytes int64, requests int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		if r.Method != http.MethodGet || r.URL.Path != path {
			continue
		}
		size := int64(len(w.objects[path]))
		requests++
		var from, to int64
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err == nil {
			size = min(to+1, size) - from
		}
		bytes += size
	}
	return bytes, requests
}

// ResetRequests discards the requests so far.
func (w *Web) ResetRequests() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = nil
}

// ServeHTTP implements http.Handler.
func (w *Web) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	data, there := w.objects[r.URL.Path]
	w.mu.Unlock()
	w.respond(out, r, func(out http.ResponseWriter, whole bool) {
		if !there {
			http.NotFound(out, r)
			return
		}
		serve(out, r, data, whole)
	})
}

// answer responds with a body that is not an object.
func (w *Web) answer(out http.ResponseWriter, r *http.Request, body []byte) {
	w.respond(out, r, func(out http.ResponseWriter, _ bool) { _, _ = out.Write(body) })
}

// respond records a request, and responds with good or with the request's fault.
func (w *Web) respond(out http.ResponseWriter, r *http.Request, good func(out http.ResponseWriter, whole bool)) {
	w.mu.Lock()
	faults, whole := w.faults, w.whole
	w.requests = append(w.requests, r)
	w.mu.Unlock()
	if faults != nil {
		f := faults(r)
		maps.Copy(out.Header(), f.Header)
		if f.Status != 0 {
			out.WriteHeader(f.Status)
			return
		}
		if f.Cut {
			out = &cutWriter{ResponseWriter: out, left: f.After}
		}
	}
	good(out, whole)
}

func serve(out http.ResponseWriter, r *http.Request, data []byte, whole bool) {
	out.Header().Set("ETag", etag(data))
	if whole {
		r = r.Clone(r.Context())
		r.Header.Del("Range")
		out.Header().Set("Content-Length", fmt.Sprint(len(data)))
	}
	out.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(out, r, "", time.Time{}, bytes.NewReader(data))
}

func etag(data []byte) string {
	sum := sha256.Sum256(data)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

// cutWriter cuts the connection after left bytes.
type cutWriter struct {
	http.ResponseWriter
	left int64
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if int64(len(p)) <= c.left {
		c.left -= int64(len(p))
		return c.ResponseWriter.Write(p)
	}
	_, _ = c.ResponseWriter.Write(p[:c.left])
	if f, ok := c.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
	panic(http.ErrAbortHandler)
}

// Lines returns n different documents as JSON lines. The text of document i begins with name and i.
func Lines(name string, n, bytes int) []byte {
	var b strings.Builder
	for i := range n {
		text := fmt.Sprintf("%s %d ", name, i)
		for len(text) < bytes {
			text += fmt.Sprintf("word%d ", len(text)*7%(i+3))
		}
		fmt.Fprintf(&b, "{\"id\": \"%s-%d\", \"text\": %q}\n", name, i, text)
	}
	return []byte(b.String())
}

// Shard returns a shard of MDS with its header and one column, text.
func Shard(texts []string) []byte {
	config := `{"column_encodings":["str"],"column_names":["text"],"column_sizes":[null],"format":"mds","version":2}`
	offset := uint32(4*(len(texts)+2) + len(config))
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(texts)))
	b = binary.LittleEndian.AppendUint32(b, offset)
	var samples []byte
	for _, text := range texts {
		samples = append(binary.LittleEndian.AppendUint32(samples, uint32(len(text))), text...)
		b = binary.LittleEndian.AppendUint32(b, offset+uint32(len(samples)))
	}
	return slices.Concat(b, []byte(config), samples)
}
