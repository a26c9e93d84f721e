package tokenstore_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"loaderd/loader/docrecord"
	"loaderd/loader/document"
	"loaderd/stream/tokenstore"
)

var created = time.Unix(1_700_000_000, 123)

func identity(stream string) tokenstore.Identity {
	return tokenstore.Identity{Stream: stream, Created: created, Settings: []byte(`"f"`)}
}

func open(t *testing.T, folder string, maxBytes int64) *tokenstore.Store {
	t.Helper()
	s, err := tokenstore.Open(folder, maxBytes, "1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func documents(t *testing.T, s *tokenstore.Store, of tokenstore.Identity) *tokenstore.Documents {
	t.Helper()
	d, err := s.Documents(of)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// doc returns a document of n tokens, which depend on its sequence.
func doc(sequence uint64, n int) *document.Document {
	d := &document.Document{Sequence: sequence, ID: sequence + 1, Content: document.Content{Stored: int64(n)}}
	d.Tokens = slices.Repeat([]int32{int32(sequence) + 1}, n)
	return d
}

// has reports whether a document is stored.
func has(d *tokenstore.Documents, sequence uint64) bool {
	_, ok := d.Get(sequence)
	return ok
}

// await waits until f returns true.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 500 {
		if f() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("timeout: %s", what)
}

// check fails unless exactly the wanted documents are stored, with their data.
func check(t *testing.T, d *tokenstore.Documents, last uint64, want func(sequence uint64) bool) {
	t.Helper()
	for sequence := uint64(1); sequence <= last; sequence++ {
		got, ok := d.Get(sequence)
		if ok != want(sequence) {
			t.Fatalf("document %d: stored %v, want %v", sequence, ok, !ok)
		}
		if want := doc(sequence, len(got.Tokens)); ok && (got.ID != want.ID || got.Document.Stored != want.Stored ||
			!slices.Equal(got.Tokens, want.Tokens)) {
			t.Fatalf("document %d is %+v, want %+v", sequence, got, want)
		}
	}
}

func all(uint64) bool { return true }

func segments(t *testing.T, folder, suffix string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*", "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return filepath.Base(name) == "identity.json" })
}

// Documents are stored in any order, over several segments, and read again after a restart.
func TestStore_ReturnsDocuments(t *testing.T) {
	folder, s := t.TempDir(), (*tokenstore.Store)(nil)
	const n = 3000
	func() {
		s = open(t, folder, 4<<20)
		d := documents(t, s, identity("DOCS"))
		order := rand.New(rand.NewPCG(1, 2)).Perm(n)
		for _, i := range order {
			d.Put(doc(uint64(i+1), i%200), "")
		}
		await(t, "documents", func() bool { return has(d, uint64(order[n-1]+1)) })
		check(t, d, n, all)
		s.Close()
	}()
	if len(segments(t, folder, ".seg")) < 2 || len(segments(t, folder, ".open")) != 0 {
		t.Fatalf("segments: %v", segments(t, folder, ""))
	}
	s = open(t, folder, 4<<20)
	check(t, documents(t, s, identity("DOCS")), n, all)
	none := func(uint64) bool { return false }
	check(t, documents(t, s, identity("OTHER")), 10, none)
	other := identity("DOCS")
	other.Settings = []byte(`"g"`)
	check(t, documents(t, s, other), 10, none)
	other = identity("DOCS")
	other.Created = created.Add(1)
	check(t, documents(t, s, other), 10, none)
	if got := s.Stats(); got.Hits != n || got.Misses != 30 || got.Damaged != 0 {
		t.Errorf("stats: %+v", got)
	}
}

// GetAll returns the documents that Get returns, over blocks and segments, with several copies of a document.
func TestDocuments_GetAll(t *testing.T) {
	folder, n := t.TempDir(), 3000
	r := rand.New(rand.NewPCG(5, 6))
	put := func(maxBytes int64, share float64) {
		s := open(t, folder, maxBytes)
		d := documents(t, s, identity("DOCS"))
		for _, i := range r.Perm(n) {
			if r.Float64() < share {
				d.Put(doc(uint64(i+1), i%200), "parent "+strconv.Itoa(i+1))
			}
		}
		s.Close()
	}
	put(64<<20, .5)
	put(64<<20, .2)
	s := open(t, folder, 64<<20)
	d := documents(t, s, identity("DOCS"))
	last := documents(t, s, identity("DOCS")) // with an open segment
	for sequence := uint64(100); sequence < 150; sequence++ {
		last.Put(doc(sequence, 3), "parent "+strconv.Itoa(int(sequence)))
	}
	await(t, "documents", func() bool { return has(last, 149) })
	for _, d := range []*tokenstore.Documents{d, last} {
		for range 200 {
			from, size, step, maxBytes := uint64(r.IntN(n+10)), 1+r.IntN(1500), 1+r.IntN(3), r.IntN(200_000)
			var sequences, want []uint64
			for sequence := from; sequence < from+uint64(size); sequence += uint64(1 + r.IntN(step)) {
				sequences = append(sequences, sequence)
				if has(d, sequence) {
					want = append(want, sequence)
				}
			}
			if count := d.Count(sequences); count != len(want) {
				t.Fatalf("%d of %d documents from %d on are stored, want %d", count, len(sequences), from, len(want))
			}
			got, rest := d.GetAll(sequences, maxBytes)
			if looked := sequences[:len(sequences)-len(rest)]; len(rest) > 0 &&
				(looked[len(looked)-1] < got[len(got)-1].Sequence || rest[0] != want[len(got)]) {
				t.Fatalf("%d remain after document %d, the first is %d", len(rest), got[len(got)-1].Sequence, rest[0])
			}
			bytes := 0
			for i, x := range got {
				expected := doc(x.Sequence, len(x.Tokens))
				expected.Stored = x.Document.Stored
				if parent := "parent " + strconv.Itoa(int(x.Sequence)); x.Sequence != want[i] || x.Traceparent != parent ||
					!slices.Equal(x.Tokens, expected.Tokens) || x.ID != expected.ID {
					t.Fatalf("document %d of %d from %d on is %+v, want %d", i, size, from, x, want[i])
				}
				bytes += len(docrecord.Append(nil, &x.Document, x.Traceparent))
				if bytes > maxBytes && i > 0 {
					t.Fatalf("%d documents have %d bytes, at most %d were requested", len(got), bytes, maxBytes)
				}
			}
			if len(got) < min(1, len(want)) || len(got) < len(want) && bytes+1000 < maxBytes {
				t.Fatalf("%d documents of %d bytes from %d on, want %d or %d bytes", len(got), bytes, from, len(want), maxBytes)
			}
		}
	}
}

// GetAll reads documents of more segments than may be loaded.
func TestDocuments_GetAllOfManySegments(t *testing.T) {
	folder := t.TempDir()
	const segments, gap = 40, 2000
	var sequences []uint64
	for i := range segments {
		s := open(t, folder, 64<<20)
		d := documents(t, s, identity("DOCS"))
		for n := range 3 {
			sequences = append(sequences, uint64(i*gap+n+1))
			d.Put(doc(sequences[len(sequences)-1], 100), "")
		}
		s.Close()
	}
	d := documents(t, open(t, folder, 64<<20), identity("DOCS"))
	found, rest := d.GetAll(sequences, 1<<20)
	if len(found) != len(sequences) || len(rest) != 0 || d.Count(sequences) != len(sequences) {
		t.Errorf("%d of %d documents, %d remain", len(found), len(sequences), len(rest))
	}
}

// If the newest document cannot be read, the newest one of another segment is returned.
func TestDocuments_NewestIsDamaged(t *testing.T) {
	folder := t.TempDir()
	for sequence := uint64(1); sequence <= 2; sequence++ {
		s := open(t, folder, 64<<20)
		documents(t, s, identity("DOCS")).Put(doc(sequence, 100), "")
		s.Close()
	}
	names := segments(t, folder, ".seg")
	b, err := os.ReadFile(names[1])
	if err != nil {
		t.Fatal(err)
	}
	b[100] ^= 1
	if err := os.WriteFile(names[1], b, 0o600); err != nil {
		t.Fatal(err)
	}
	d := documents(t, open(t, folder, 64<<20), identity("DOCS"))
	if newest, ok := d.Newest(); !ok || newest.Sequence != 1 || !slices.Equal(newest.Tokens, doc(1, 100).Tokens) {
		t.Errorf("newest %+v %v", newest, ok)
	}
	d.Put(doc(2, 100), "")
	await(t, "document 2", func() bool { return has(d, 2) })
}

// A process reads what another one has stored, before and after its segment is sealed.
func TestStore_IsSharedByProcesses(t *testing.T) {
	folder := t.TempDir()
	writer, reader := open(t, folder, 64<<20), open(t, folder, 64<<20)
	a, b := documents(t, writer, identity("DOCS")), documents(t, reader, identity("DOCS"))
	for sequence := uint64(1); sequence <= 100; sequence++ {
		a.Put(doc(sequence, 50), "")
		if sequence == 1 {
			await(t, "newest document of another process", func() bool { _, ok := b.Newest(); return ok })
		}
		if sequence%25 == 0 {
			await(t, "document of another process", func() bool { return has(b, sequence) })
		}
	}
	check(t, b, 100, all)
	writer.Close()
	check(t, b, 100, all)
	if newest, ok := b.Newest(); newest.Sequence != 100 || !ok {
		t.Errorf("newest %d %v", newest.Sequence, ok)
	}
	c := documents(t, open(t, folder, 64<<20), identity("DOCS"))
	check(t, c, 100, all)
}

// The segment of a killed process is read up to its last complete record.
func TestStore_ReadsSegmentOfKilledProcess(t *testing.T) {
	folder := t.TempDir()
	d := documents(t, open(t, folder, 64<<20), identity("DOCS"))
	for sequence := uint64(1); sequence <= 10; sequence++ {
		d.Put(doc(sequence, 50), "")
	}
	await(t, "documents", func() bool { return has(d, 10) })
	name := segments(t, folder, ".open")[0]
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, info.Size()-7); err != nil {
		t.Fatal(err)
	}
	check(t, documents(t, open(t, folder, 64<<20), identity("DOCS")), 10, func(n uint64) bool { return n < 10 })
}

// The store is never larger than its bound, and drops the oldest documents.
func TestStore_DropsOldest(t *testing.T) {
	folder, logged := t.TempDir(), &bytes.Buffer{}
	const bound = 2 << 20
	s, err := tokenstore.Open(folder, bound, "1", slog.New(slog.NewTextHandler(logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d := documents(t, s, identity("DOCS"))
	const n = 5000
	for sequence := uint64(1); sequence <= n; sequence++ {
		d.Put(doc(sequence, 330), "")
		if sequence%500 == 0 {
			await(t, "documents", func() bool { return has(d, sequence) })
			size := int64(0)
			for _, name := range segments(t, folder, "") {
				if info, err := os.Stat(name); err == nil {
					size += info.Size()
				}
			}
			if size > bound {
				t.Fatalf("%d bytes after %d documents, want at most %d", size, sequence, bound)
			}
		}
	}
	first := uint64(1)
	for ; first <= n; first++ {
		if has(d, first) {
			break
		}
	}
	if first < n/2 || first > n-1000 {
		t.Errorf("first document is %d", first)
	}
	check(t, d, n, func(sequence uint64) bool { return sequence >= first })
	if logged.Len() > 0 || s.Stats().Damaged > 0 {
		t.Errorf("log %s stats %+v", logged, s.Stats())
	}
}

// Segments before the first document of the stream are deleted, and all of a stream that is another one.
func TestDocuments_Delete(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder, 2<<20)
	d := documents(t, s, identity("DOCS"))
	const n = 600
	for sequence := uint64(1); sequence <= n; sequence++ {
		d.Put(doc(sequence, 330), "")
	}
	await(t, "documents", func() bool { return has(d, n) })
	before := len(segments(t, folder, ".seg"))
	d.DeleteBelow(n / 2)
	after := len(segments(t, folder, ".seg"))
	if after >= before || after < before/3 {
		t.Errorf("%d of %d segments are left", after, before)
	}
	if has(d, 1) {
		t.Error("document 1 is stored")
	}
	check(t, d, n, func(sequence uint64) bool { return has(d, sequence) || sequence >= n/2 })
	d.DeleteAll()
	check(t, d, n, func(uint64) bool { return false })
	if left := segments(t, folder, ""); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	d.Put(doc(7, 7), "")
	await(t, "documents", func() bool { return has(d, 7) })
}

// However a file is damaged, a document is either absent or as it was stored.
func TestStore_DamagedFiles(t *testing.T) {
	const n = 300
	folder := t.TempDir()
	s := open(t, folder, 1<<20)
	d := documents(t, s, identity("DOCS"))
	for sequence := uint64(1); sequence <= n; sequence++ {
		d.Put(doc(sequence, 150), "")
	}
	s.Close()
	names := segments(t, folder, ".seg")
	name := names[0]
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	damage := map[string]func([]byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"magic":     func(b []byte) []byte { b[0] ^= 1; return b },
		"truncated": func(b []byte) []byte { return b[:r.IntN(len(b))] },
		"last":      func(b []byte) []byte { return b[:len(b)-1] },
		"flipped":   func(b []byte) []byte { b[r.IntN(len(b))] ^= 1 << r.IntN(8); return b },
		"index":     func(b []byte) []byte { b[len(b)-1-r.IntN(400)] ^= 1 << r.IntN(8); return b },
		"zeros":     func(b []byte) []byte { clear(b[r.IntN(len(b)):]); return b },
		"deleted":   nil,
	}
	for what, change := range damage {
		for i := range 8 {
			t.Run(fmt.Sprintf("%s %d", what, i), func(t *testing.T) {
				reader := open(t, folder, 1<<20)
				d := documents(t, reader, identity("DOCS"))
				if i%2 == 0 {
					d.Get(1) // the segment is damaged after it was opened
				}
				if change == nil {
					_ = os.Remove(name)
				} else if err := os.WriteFile(name, change(slices.Clone(whole)), 0o600); err != nil {
					t.Fatal(err)
				}
				var sequences []uint64
				for sequence := uint64(1); sequence <= n; sequence++ {
					sequences = append(sequences, sequence)
				}
				got, _ := d.GetAll(sequences, 1<<30)
				check(t, d, n, func(sequence uint64) bool { return has(d, sequence) })
				for _, x := range got {
					if !slices.Equal(x.Tokens, doc(x.Sequence, 150).Tokens) {
						t.Fatalf("document %d of a range is %+v", x.Sequence, x)
					}
				}
				again := documents(t, open(t, folder, 1<<20), identity("DOCS"))
				check(t, again, n, func(sequence uint64) bool { return has(again, sequence) })
				if err := os.WriteFile(name, whole, 0o600); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// A folder that cannot be written is reported once, and no caller waits for it.
func TestStore_DiskFails(t *testing.T) {
	var logged strings.Builder
	folder := t.TempDir()
	s, err := tokenstore.Open(folder, 1<<20, "1", slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	d := documents(t, s, identity("DOCS"))
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil { // a file in place of the folder
		t.Fatal(err)
	}
	for sequence := uint64(1); sequence <= 100; sequence++ {
		d.Put(doc(sequence, 10), "")
	}
	check(t, d, 100, func(uint64) bool { return false })
	s.Close()
	if n := strings.Count(logged.String(), "cannot be written"); n != 1 || s.Stats().Dropped != 100 {
		t.Errorf("%d warnings, stats %+v: %s", n, s.Stats(), &logged)
	}
}

// Reading a segment with any content never panics.
func FuzzSegment(f *testing.F) {
	folder := f.TempDir()
	s, err := tokenstore.Open(folder, 1<<20, "1", slog.New(slog.DiscardHandler))
	if err != nil {
		f.Fatal(err)
	}
	d, err := s.Documents(identity("DOCS"))
	if err != nil {
		f.Fatal(err)
	}
	for sequence := uint64(1); sequence <= 3; sequence++ {
		d.Put(doc(sequence, 5), "")
	}
	s.Close()
	names, err := filepath.Glob(filepath.Join(folder, "*", "*.seg"))
	if err != nil || len(names) != 1 {
		f.Fatal(names, err)
	}
	whole, err := os.ReadFile(names[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, true)
	f.Add(whole, false)
	f.Fuzz(func(t *testing.T, b []byte, sealed bool) {
		folder, suffix := t.TempDir(), ".open"
		if sealed {
			suffix = ".seg"
		}
		dir := filepath.Join(folder, filepath.Base(filepath.Dir(names[0])))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "1-1"+suffix), b, 0o600); err != nil {
			t.Fatal(err)
		}
		d := documents(t, open(t, folder, 1<<20), identity("DOCS"))
		for sequence := range uint64(5) {
			d.Get(sequence)
		}
		d.GetAll([]uint64{0, 1, 2, 3, 4}, 1<<20)
		if newest, ok := d.Newest(); ok && !has(d, newest.Sequence) {
			t.Errorf("the newest document %d cannot be read", newest.Sequence)
		}
	})
}
