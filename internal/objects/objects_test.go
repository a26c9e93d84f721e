package objects_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loaderd/internal/objects"
	"loaderd/internal/objecttest"
)

// patience is how long a store may be unresponsive in tests.
const patience = 500 * time.Millisecond

func list(t *testing.T, s *objects.Stores, pattern string) []objects.Object {
	t.Helper()
	all, err := s.List(t.Context(), pattern)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readAll(ctx context.Context, s *objects.Stores, o objects.Object, from int64) ([]byte, error) {
	r, err := s.Open(ctx, o, from)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

func random(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	return data
}

// A read returns the same bytes despite cut connections, busy servers and servers without ranges.
func TestRead_RetriesFaults(t *testing.T) {
	data := random(300_000)
	draw := rand.New(rand.NewPCG(1, 2))
	for name, fault := range map[string]func(n int) objecttest.Fault{
		"none":      func(int) objecttest.Fault { return objecttest.Fault{} },
		"cut":       func(int) objecttest.Fault { return objecttest.Fault{Cut: true, After: draw.Int64N(70_000)} },
		"cut empty": func(n int) objecttest.Fault { return objecttest.Fault{Cut: n%2 == 0, After: 0} },
		"503": func(n int) objecttest.Fault {
			return objecttest.Fault{Status: []int{503, 0}[n%2], Cut: true, After: 100_000}
		},
		"429": func(n int) objecttest.Fault {
			return objecttest.Fault{Status: []int{429, 0}[n%2], Header: http.Header{"Retry-After": {"0"}}, Cut: true,
				After: 200_000}
		},
	} {
		for _, whole := range []bool{false, true} {
			if whole && name != "none" && name != "503" {
				continue // would never finish
			}
			t.Run(fmt.Sprint(name, " whole=", whole), func(t *testing.T) {
				web := objecttest.NewWeb(t)
				web.Put("/a.bin", data)
				s := objects.New(objects.Options{})
				o := list(t, s, web.URL+"/a.bin")[0]
				if whole {
					web.NoRanges()
				}
				var n atomic.Int64
				web.Faults(func(*http.Request) objecttest.Fault {
					f := fault(int(n.Add(1) - 1))
					f.Cut = f.Cut && !whole
					return f
				})
				for _, from := range []int64{0, 1, 123_456, 299_999, 300_000} {
					got, err := readAll(t.Context(), s, o, from)
					if err != nil || !bytes.Equal(got, data[from:]) {
						t.Fatalf("from %d: %d bytes, want %d, err %v", from, len(got), len(data)-int(from), err)
					}
				}
			})
		}
	}
}

// Parts of a changed object are never combined with parts of its previous version.
func TestRead_DetectsChangedObject(t *testing.T) {
	for _, size := range []int{100_000, 90_000} {
		web := objecttest.NewWeb(t)
		before, after := bytes.Repeat([]byte("a"), 100_000), bytes.Repeat([]byte("b"), size)
		web.Put("/a", before)
		s := objects.New(objects.Options{})
		o := list(t, s, web.URL+"/a")[0]
		web.Faults(func(*http.Request) objecttest.Fault { return objecttest.Fault{Cut: true, After: 40_000} })
		r, err := s.Open(t.Context(), o, 0)
		if err != nil {
			t.Fatal(err)
		}
		some := make([]byte, 30_000)
		if _, err := io.ReadFull(r, some); err != nil {
			t.Fatal(err)
		}
		web.Put("/a", after)
		rest, err := io.ReadAll(r)
		if !objects.IsKind(err, objects.Changed) || bytes.Contains(rest, []byte("b")) {
			t.Errorf("%d bytes later: %d bytes, err %v; want that the object has changed", size, len(rest), err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Errors describe the problem and what to do, without secrets.
func TestErrors_DescribeFixWithoutSecrets(t *testing.T) {
	web := objecttest.NewWeb(t)
	web.Put("/a", []byte("x"))
	var status atomic.Int64
	web.Faults(func(*http.Request) objecttest.Fault { return objecttest.Fault{Status: int(status.Load())} })
	address := strings.Replace(web.URL, "//", "//user:hunter2@", 1) + "/a?sig=topsecret"
	for code, want := range map[int]struct {
		kind objects.Kind
		says string
	}{
		401: {objects.Denied, "user and password"}, 403: {objects.Denied, "signed"},
		404: {objects.NotFound, "look at the name"},
		500: {objects.Unavailable, "given up after"}, 503: {objects.Unavailable, "given up after"},
		418: {objects.Invalid, "418"},
	} {
		status.Store(int64(code))
		_, err := objects.New(objects.Options{RetryTimeout: patience}).List(t.Context(), address)
		if !objects.IsKind(err, want.kind) || !strings.Contains(err.Error(), want.says) ||
			!strings.Contains(err.Error(), "/a#") {
			t.Errorf("%d: %v; want %v that contains %q and names the object", code, err, want.kind, want.says)
		}
		if s := fmt.Sprint(err); strings.Contains(s, "topsecret") || strings.Contains(s, "hunter2") {
			t.Errorf("%d: a secret in %q", code, s)
		}
	}
	status.Store(0)
	o := list(t, objects.New(objects.Options{}), address)[0]
	if strings.Contains(fmt.Sprint(o), "topsecret") || strings.Contains(fmt.Sprint(o), "hunter2") {
		t.Errorf("a secret in %+v", o)
	}
	web.Close()
	var told []string
	s := objects.New(objects.Options{RetryTimeout: patience, OnRetry: func(problem string) {
		told = append(told, problem)
	}})
	_, err := s.List(t.Context(), address)
	if !objects.IsKind(err, objects.Unavailable) || len(told) == 0 ||
		strings.Contains(fmt.Sprint(err, told), "topsecret") {
		t.Errorf("of a server that is gone: %v; told %q", err, told)
	}
}

// After a cut connection, reading of a block continues at the same offset: no byte is served twice.
func TestReaderAt_ResumesWithinBlock(t *testing.T) {
	data := random(9<<20 + 17)
	web := objecttest.NewWeb(t)
	web.Put("/a", data)
	s := objects.New(objects.Options{})
	o := list(t, s, web.URL+"/a")[0]
	at := s.ReaderAt(t.Context(), o)
	before := len(web.Requests())
	web.Faults(func(*http.Request) objecttest.Fault { return objecttest.Fault{Cut: true, After: 1 << 20} })
	got := make([]byte, len(data))
	if n, err := at.ReadAt(got, 0); n != len(data) || err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	asked := int64(0)
	for i, r := range web.Requests()[before:] {
		var from, to int64
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err != nil ||
			r.Header.Get("If-Match") != o.Version {
			t.Fatalf("request %d: %v, %v", i, r.Header, err)
		}
		asked += min(to-from+1, 1<<20)
	}
	if asked > int64(len(data)) {
		t.Errorf("%d bytes were served of %d", asked, len(data))
	}
}

// The hub's tree has several pages. Its files are on another server, which does not receive the token.
func TestHub_ListsPagesWithoutLeakingToken(t *testing.T) {
	hub := objecttest.NewHub(t)
	hub.Page, hub.Token = 2, "hf_secret"
	names := []string{".gitattributes", "README.md", "data/en/0.jsonl", "data/en/1.jsonl", "data/en/sub/2.jsonl",
		"data/fr/0.jsonl", "data/fr/0.parquet"}
	for _, name := range names {
		hub.Put("owner/set", name, []byte("content of "+name))
	}
	t.Setenv("HF_ENDPOINT", hub.URL)
	for pattern, want := range map[string]string{
		"hf://datasets/owner/set/data/en/*.jsonl":      "data/en/0.jsonl data/en/1.jsonl",
		"hf://datasets/owner/set/data/**/*.jsonl":      "data/en/0.jsonl data/en/1.jsonl data/en/sub/2.jsonl data/fr/0.jsonl",
		"hf://datasets/owner/set/**/{1,2}.jsonl":       "data/en/1.jsonl data/en/sub/2.jsonl",
		"hf://datasets/owner/set/data/fr":              "data/fr/0.jsonl data/fr/0.parquet",
		"hf://datasets/owner/set/data/fr/":             "data/fr/0.jsonl data/fr/0.parquet",
		"hf://datasets/owner/set@main/data/fr/0.jsonl": "data/fr/0.jsonl",
		"hf://datasets/owner/set@" + objecttest.Commit: "README.md data/en/0.jsonl data/en/1.jsonl data/en/sub/2.jsonl " +
			"data/fr/0.jsonl data/fr/0.parquet",
		"hf://datasets/owner/set/data/en/[01].jsonl": "data/en/0.jsonl data/en/1.jsonl",
		"hf://datasets/owner/set/data/?r/0.*":        "data/fr/0.jsonl data/fr/0.parquet",
		"hf://datasets/owner/set/.git*":              ".gitattributes",
	} {
		t.Run(pattern, func(t *testing.T) {
			t.Setenv("HF_TOKEN", "hf_secret")
			s := objects.New(objects.Options{})
			var got []string
			for _, o := range list(t, s, pattern) {
				_, name, _ := strings.Cut(strings.TrimPrefix(o.URL, "hf://datasets/owner/"), "/")
				got = append(got, name)
				data, err := readAll(t.Context(), s, o, 3)
				if err != nil || string(data) != ("content of " + name)[3:] {
					t.Errorf("%s: %q, %v", o.URL, data, err)
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
			}
		})
	}
	for _, r := range hub.Files.Requests() {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token went to another server")
		}
	}
	_, err := objects.New(objects.Options{}).List(t.Context(), "hf://datasets/owner/set/data/**")
	if !objects.IsKind(err, objects.Denied) || !strings.Contains(err.Error(), "HF_TOKEN") ||
		!strings.Contains(err.Error(), "hf://datasets/owner/set") {
		t.Errorf("without a token: %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("hf_secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HF_HOME", dir)
	_, err = objects.New(objects.Options{}).List(t.Context(), "hf://datasets/owner/none/data/**")
	if !objects.IsKind(err, objects.NotFound) {
		t.Errorf("of a set that is not there: %v", err)
	}
	_, err = objects.New(objects.Options{}).List(t.Context(), "hf://datasets/owner/set/nothing/**")
	if !objects.IsKind(err, objects.NotFound) || !strings.Contains(err.Error(), "no object matches") {
		t.Errorf("of a pattern that matches nothing: %v", err)
	}
}

func TestList_RefusesInvalidAddresses(t *testing.T) {
	for pattern, want := range map[string]string{
		"s3://*/x": "path alone", "hf://datasets/owner": "want hf://datasets/OWNER/NAME",
		"hf://models/a/b/c":    "want hf://datasets/OWNER/NAME",
		"https://host/*.jsonl": "lists no files", "ftp://x/y": "not read", "s3://bucket/[a": "bracket",
		"s3://b/x": "3 to 63 letters", "s3://bucket/" + strings.Repeat("x", 1025): "longer than 1024",
	} {
		if _, err := objects.New(objects.Options{}).List(t.Context(), pattern); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", pattern, err, want)
		}
	}
}
