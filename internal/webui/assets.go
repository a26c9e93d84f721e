package webui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"loaderd/internal/webmodules"
	"loaderd/loader/fault"
)

//go:embed page
var pageFiles embed.FS

// asset is a file of the page.
type asset struct {
	contentType, etag string // Content-Type; ETag
	body
}

// assetHandler serves the files of the page by name, including those of webui; / is index.html. Browsers revalidate
// each file, so that after an update of the daemon no page mixes two versions.
func assetHandler() http.Handler {
	all := map[string]*asset{}
	own, err := fs.Sub(pageFiles, "page")
	for _, folder := range []fs.FS{own, webmodules.Files} {
		err = errors.Join(err, fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(folder, name)
			all["/"+name] = newAsset(name, b)
			return err
		}))
	}
	if err != nil {
		panic(err) // the files are embedded in the binary
	}
	all["/"] = all["/index.html"]
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		a, there := all[q.URL.Path]
		if !there || q.Method != http.MethodGet && q.Method != http.MethodHead {
			writeError(w, &fault.Error{Reason: unsupported, Message: "this daemon has nothing there",
				Advice: "open / for its page; docs/how-to/live-page.md#json-api lists the rest"})
			return
		}
		h := w.Header()
		h.Set("Content-Type", a.contentType)
		h.Set("Cache-Control", "no-cache")
		h.Set("Vary", "Accept-Encoding")
		h.Set("ETag", a.etag)
		b := a.plain
		if acceptsGzip(q) {
			h.Set("Content-Encoding", "gzip")
			h.Set("ETag", strings.TrimSuffix(a.etag, `"`)+`-gzip"`)
			b = a.gzip()
		}
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(b))
	})
}

func newAsset(name string, b []byte) *asset {
	sum := sha256.Sum256(b)
	kind := mime.TypeByExtension(path.Ext(name))
	// The system's MIME table must not override this type: browsers run modules only with a JavaScript type.
	if strings.HasSuffix(name, ".js") {
		kind = "text/javascript; charset=utf-8"
	}
	return &asset{contentType: kind, etag: `"` + hex.EncodeToString(sum[:8]) + `"`, body: body{plain: b}}
}

// body is the content of a response, plain and in gzip. It is compressed on the first request only, so that a daemon
// without page viewers does not spend time on it.
type body struct {
	plain    []byte
	gzipOnce sync.Once
	gzipped  []byte // plain in gzip
}

func (b *body) gzip() []byte {
	b.gzipOnce.Do(func() { b.gzipped = gzipBytes(b.plain) })
	return b.gzipped
}

// gzipBytes returns b compressed with gzip.
func gzipBytes(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(b)
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		panic(err) // a buffer does not fail
	}
	return out.Bytes()
}

// acceptsGzip reports whether the client accepts gzip.
func acceptsGzip(q *http.Request) bool {
	for _, line := range q.Header.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(line, ",") {
			name, weight, weighed := strings.Cut(part, ";")
			share, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
			if strings.TrimSpace(name) == "gzip" && (!weighed || err == nil && share > 0) {
				return true
			}
		}
	}
	return false
}
