package objects_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"loaderd/internal/objects"
	"loaderd/internal/objecttest"
)

// readerAt returns a reader of an object on a web server.
func readerAt(t *testing.T, data []byte) (*objecttest.Web, *objects.ReaderAt) {
	t.Helper()
	web := objecttest.NewWeb(t)
	web.Put("/a.bin", data)
	s := objects.New(objects.Options{RetryTimeout: patience})
	r := s.ReaderAt(t.Context(), list(t, s, web.URL+"/a.bin")[0])
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	web.ResetRequests()
	return web, r
}

// Concurrent reads of announced and other ranges return the object's bytes, despite cut connections and busy servers.
func TestReaderAt_ReturnsBytesDespiteFaults(t *testing.T) {
	data := random(5 << 20)
	web, r := readerAt(t, data)
	var n atomic.Int64
	web.Faults(func(*http.Request) objecttest.Fault {
		i := n.Add(1)
		return objecttest.Fault{Status: []int{0, 503}[i%9/8], Cut: i%5 == 0, After: i * 7919 % 100_000}
	})
	draw := rand.New(rand.NewPCG(1, 2))
	for round := range 3 {
		var ranges [][2]int64
		for range round * 20 {
			from := draw.Int64N(int64(len(data)))
			ranges = append(ranges, [2]int64{from, min(from+draw.Int64N(400_000), int64(len(data)))})
		}
		r.Want(ranges)
		var reading sync.WaitGroup
		for i := range 4 {
			draw := rand.New(rand.NewPCG(uint64(round), uint64(i)))
			reading.Go(func() {
				for range 10 {
					from := draw.Int64N(int64(len(data)))
					part := make([]byte, 1+draw.Int64N(300_000))
					n, err := r.ReadAt(part, from)
					if want := min(int64(len(part)), int64(len(data))-from); int64(n) != want || !bytes.Equal(part[:n],
						data[from:from+want]) || (err == io.EOF) != (n < len(part)) || err != nil && err != io.EOF {
						t.Errorf("%d of %d bytes at %d, %v", n, len(part), from, err)
					}
				}
			})
		}
		reading.Wait()
	}
}

// Announced ranges are requested once, with at most small gaps between them. A sequence of other reads requests less
// than twice the bytes that it reads.
func TestReaderAt_RequestsOnlyWantedBytes(t *testing.T) {
	data := random(8 << 20)
	web, r := readerAt(t, data)
	large := [2]int64{1 << 20, 3 << 20}
	r.Want([][2]int64{large, {10_000, 30_000}, {40_000, 60_000}, {4 << 20, 4<<20 + 50_000}})
	for _, x := range [][2]int64{{10_000, 30_000}, large, {4 << 20, 4<<20 + 50_000}, {40_000, 60_000}} {
		got, err := io.ReadAll(io.NewSectionReader(r, x[0], x[1]-x[0]))
		if err != nil || !bytes.Equal(got, data[x[0]:x[1]]) {
			t.Fatalf("%v: %d bytes, %v", x, len(got), err)
		}
	}
	if got, n := web.Requested("/a.bin"); got != 50_000+2<<20+50_000 || n != 3 {
		t.Errorf("%d bytes in %d requests", got, n)
	}
	r.Want(nil)
	web.ResetRequests()
	const from, length = 5<<20 + 1, 2 << 20
	if _, err := io.Copy(io.Discard, io.NewSectionReader(r, from, length)); err != nil {
		t.Fatal(err)
	}
	if got, n := web.Requested("/a.bin"); got < length || got > 2*length || n > 8 {
		t.Errorf("%d bytes in %d requests for %d in sequence", got, n, length)
	}
}

// A server without ranges is read once, for reads at any offset.
func TestReaderAt_CopiesObjectOfServerWithoutRanges(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	data := random(1 << 20)
	web, r := readerAt(t, data)
	web.NoRanges()
	r.Want([][2]int64{{500_000, 600_000}})
	for _, from := range []int64{1_000_000, 0, 500_000, 20_000} {
		part := make([]byte, 40_000)
		if _, err := r.ReadAt(part, from); err != nil || !bytes.Equal(part, data[from:from+int64(len(part))]) {
			t.Fatalf("at %d: %v", from, err)
		}
	}
	if n := len(web.Requests()); n != 2 { // the first shows that ranges are ignored
		t.Errorf("%d requests", n)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// Responses that are not the requested bytes are errors that name the object and the offset.
func TestReaderAt_ErrorsNameObjectAndOffset(t *testing.T) {
	data := random(1 << 20)
	contentRange := func(value string) objecttest.Fault {
		return objecttest.Fault{Status: http.StatusPartialContent, Header: http.Header{"Content-Range": {value}}}
	}
	for name, c := range map[string]struct {
		fault objecttest.Fault
		kind  objects.Kind
		want  string
	}{
		"another offset": {contentRange("bytes 0-65535/1048576"), objects.Invalid, `sends "bytes 0-65535/1048576"`},
		"another size": {contentRange("bytes 300000-365535/2000000"), objects.Changed,
			"it has 2000000 bytes, it had 1048576"},
		"no Content-Range": {objecttest.Fault{Status: http.StatusPartialContent}, objects.Invalid, "Content-Range"},
		"compressed": {objecttest.Fault{Status: http.StatusOK, Header: http.Header{"Content-Encoding": {"gzip"},
			"Transfer-Encoding": {"chunked"}}}, objects.Invalid, "Content-Encoding: gzip"},
		"past the end": {objecttest.Fault{Status: http.StatusRequestedRangeNotSatisfiable}, objects.Changed, "416"},
	} {
		t.Run(name, func(t *testing.T) {
			web, r := readerAt(t, data)
			web.Faults(func(*http.Request) objecttest.Fault { return c.fault })
			_, err := r.ReadAt(make([]byte, 10), 300_000)
			if !objects.IsKind(err, c.kind) || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), web.URL+"/a.bin: at byte 300000: ") {
				t.Errorf("%v, want %q at byte 300000 of the object", err, c.want)
			}
		})
	}
}

// An object that changes between two requests is an error, and never data of both versions.
func TestReaderAt_DetectsChangedObject(t *testing.T) {
	for _, size := range []int{1 << 20, 1<<20 - 1} {
		web, r := readerAt(t, bytes.Repeat([]byte("a"), 1<<20))
		if _, err := r.ReadAt(make([]byte, 10), 0); err != nil {
			t.Fatal(err)
		}
		web.Put("/a.bin", bytes.Repeat([]byte("b"), size))
		part := make([]byte, 200_000)
		n, err := r.ReadAt(part, 1)
		if !objects.IsKind(err, objects.Changed) || bytes.ContainsRune(part[:n], 'b') {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
}

// S3 servers that ignore ranges, or send others, never yield other bytes than the requested ones.
func TestS3_IgnoredRanges(t *testing.T) {
	data := random(200_000)
	s3 := objecttest.NewS3(t)
	t.Setenv("AWS_ENDPOINT_URL", s3.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "us-east-1")
	s3.Web.Put("/bucket/a", data)
	s := objects.New(objects.Options{RetryTimeout: patience})
	o := list(t, s, "s3://bucket/a")[0]
	if got, err := readAll(t.Context(), s, o, 150_000); err != nil || !bytes.Equal(got, data[150_000:]) {
		t.Fatalf("with ranges: %d bytes, %v", len(got), err)
	}
	s3.Web.Faults(func(*http.Request) objecttest.Fault {
		return objecttest.Fault{Status: http.StatusPartialContent, Header: http.Header{"Content-Range": {"bytes 0-9/200000"},
			"Content-Length": {"0"}}}
	})
	if _, err := readAll(t.Context(), s, o, 150_000); !objects.IsKind(err, objects.Invalid) ||
		!strings.Contains(err.Error(), "s3://bucket/a: at byte 150000: ") {
		t.Errorf("another range: %v", err)
	}
	s3.Web.Faults(nil)
	s3.Web.NoRanges()
	if got, err := readAll(t.Context(), s, o, 150_000); err != nil || !bytes.Equal(got, data[150_000:]) {
		t.Errorf("without ranges: %d bytes, %v", len(got), err)
	}
}

// Only the head is requested before more is read.
func TestOpenHead_RequestsRestWhenRead(t *testing.T) {
	data := random(300_000)
	web := objecttest.NewWeb(t)
	web.Put("/a", data)
	s := objects.New(objects.Options{})
	o := list(t, s, web.URL+"/a")[0]
	web.ResetRequests()
	r, err := s.OpenHead(t.Context(), o, 1000)
	if err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 1000)
	_, err = io.ReadFull(r, head)
	if n, requests := web.Requested("/a"); err != nil || n != 1000 || requests != 1 {
		t.Errorf("%d bytes in %d requests for the head, %v", n, requests, err)
	}
	rest, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(append(head, rest...), data) {
		t.Errorf("%d bytes after the head, %v", len(rest), err)
	}
	if n, requests := web.Requested("/a"); n != 300_000 || requests != 2 {
		t.Errorf("%d bytes in %d requests", n, requests)
	}
	web.NoRanges()
	web.ResetRequests()
	if r, err = s.OpenHead(t.Context(), o, 1000); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(all, data) || len(web.Requests()) != 1 {
		t.Errorf("without ranges: %d bytes in %d requests, %v", len(all), len(web.Requests()), err)
	}
}
