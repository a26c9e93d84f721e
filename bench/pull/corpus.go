package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// madeUp is a generated corpus, in which every byte follows from the seed. Its documents are JSON lines of equal
// length, so that any range can be served.
type madeUp struct {
	seed      uint64
	documents int64
	perObject int64
}

const (
	lineBytes   = 4096
	objectBytes = 64 << 20
	words       = "the of and to in is that for it as was with be by on not he his but at are this have from or had an " +
		"they which one you were all her she there " +
		"would their we him been has when who will no more if out so up said what its about than into them can only other " +
		"time new some could these"
)

// numbered is the start of every text, followed by the document's number and a space.
const numbered = "document "

var vocabulary = strings.Fields(words)

func corpusOf(bytes int64, seed uint64) madeUp {
	return madeUp{seed, max(1, bytes/lineBytes), objectBytes / lineBytes}
}

func (m madeUp) objects() int64 { return (m.documents + m.perObject - 1) / m.perObject }

func (m madeUp) bytes() int64 { return m.documents * lineBytes }

// line returns the i-th document.
func (m madeUp) line(i int64) []byte {
	const end = "\"}\n"
	line := fmt.Appendf(make([]byte, 0, lineBytes), `{"text": "%s%d `, numbered, i)
	r := rand.New(rand.NewPCG(m.seed, uint64(i)))
	for len(line) < lineBytes {
		line = append(append(line, vocabulary[r.IntN(len(vocabulary))]...), ' ')
	}
	return append(line[:lineBytes-len(end)], end...)
}

// text returns the text field of a line.
func text(line []byte) []byte { return line[len(`{"text": "`) : lineBytes-len("\"}\n")] }

// addresses returns the addresses of all objects at a server.
func (m madeUp) addresses(server string) (all []string) {
	for i := range m.objects() {
		all = append(all, fmt.Sprintf("%s/%06d.jsonl", server, i))
	}
	return all
}

// ServeHTTP implements http.Handler: objects by ranges, with ETags.
func (m madeUp) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	i, err := strconv.ParseInt(strings.TrimSuffix(path.Base(r.URL.Path), ".jsonl"), 10, 64)
	if err != nil || i < 0 || i >= m.objects() {
		http.NotFound(out, r)
		return
	}
	from := i * m.perObject
	out.Header().Set("ETag", fmt.Sprintf(`"%d-%d"`, m.seed, i))
	out.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(out, r, "", time.Time{},
		&object{corpus: m, from: from, size: min(m.perObject, m.documents-from) * lineBytes, cached: -1})
}

// object is one object of a corpus, generated while it is read.
type object struct {
	corpus         madeUp
	from, size, at int64
	cached         int64
	line           []byte
}

// Read implements io.Reader.
func (o *object) Read(p []byte) (n int, err error) {
	for len(p) > 0 && o.at < o.size {
		if i := o.from + o.at/lineBytes; i != o.cached {
			o.cached, o.line = i, o.corpus.line(i)
		}
		k := copy(p, o.line[o.at%lineBytes:])
		p, n, o.at = p[k:], n+k, o.at+int64(k)
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Seek implements io.Seeker.
func (o *object) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += o.at
	case io.SeekEnd:
		offset += o.size
	}
	if offset < 0 {
		return 0, errors.New("a seek to before the object")
	}
	o.at = offset
	return offset, nil
}
