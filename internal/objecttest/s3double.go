package objecttest

import (
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// S3Double is a double of S3 that does not authenticate clients, and records the headers of each request. Tests of
// signatures need a real server (S3).
type S3Double struct {
	*httptest.Server
	Web *Web // stores the objects, at /BUCKET/NAME, the faults and the requests
}

// NewS3 starts a double, which stops at the end of the test.
func NewS3(tb testing.TB) *S3Double {
	s := &S3Double{Web: NewWeb(tb)}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = quiet
	s.Start()
	tb.Cleanup(s.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (s *S3Double) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	switch query := r.URL.Query(); {
	case query.Has("location"):
		s.Web.answer(out, r,
			[]byte(`<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></LocationConstraint>`))
	case query.Has("list-type"):
		s.Web.answer(out, r, s.listing(strings.Trim(r.URL.Path, "/"), query.Get("prefix")))
	default:
		out.Header().Set("Last-Modified", time.Unix(0, 0).UTC().Format(http.TimeFormat))
		s.Web.ServeHTTP(out, r)
	}
}

// listing returns one page with all objects below a prefix.
func (s *S3Double) listing(bucket, prefix string) []byte {
	type object struct {
		Key  string
		ETag string
		Size int
	}
	page := struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Name     string
		Contents []object
	}{Name: bucket}
	s.Web.mu.Lock()
	defer s.Web.mu.Unlock()
	for path, data := range s.Web.objects {
		if name, in := strings.CutPrefix(path, "/"+bucket+"/"); in && strings.HasPrefix(name, prefix) {
			page.Contents = append(page.Contents, object{name, etag(data), len(data)})
		}
	}
	slices.SortFunc(page.Contents, func(a, b object) int { return strings.Compare(a.Key, b.Key) })
	text, _ := xml.Marshal(page) // strings and numbers always encode
	return text
}

// Asked returns the identity of a request: the id of a key, followed by ":" and the session token if it has one. It
// returns "" for an anonymous request.
func Asked(r *http.Request) string {
	_, after, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	id, _, _ := strings.Cut(after, "/")
	if token := r.Header.Get("X-Amz-Security-Token"); token != "" {
		id += ":" + token
	}
	return id
}
