package docstream_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"loaderd/internal/natstest"
	"loaderd/loader/document"
	"loaderd/stream"
	"loaderd/stream/docstream"
	"loaderd/stream/tokenstore"
)

// failingEncoder fails a test that tokenizes.
type failingEncoder struct{ t *testing.T }

func (e failingEncoder) EncodePart(dst []int32, text []byte, _, _ bool) []int32 {
	e.t.Errorf("tokenizes %q", text)
	return dst
}

// openStoredLog opens the stream with a token store. If a document is tokenized though it must not be, the test fails.
func openStoredLog(t *testing.T, s *stream.Store, folder string, tokenizes bool) (*docstream.Log, *tokenstore.Store) {
	t.Helper()
	store, err := tokenstore.Open(folder, 64<<20, "1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	with := bytesTokenizing
	with.Store = store
	if !tokenizes {
		with.NewEncoder = func() docstream.Encoder { return failingEncoder{t} }
	}
	l, err := docstream.Open(natstest.Context(t), s, with)
	if err != nil {
		t.Fatal(err)
	}
	return l, store
}

func refetchAll(t *testing.T, l *docstream.Log, n int) map[uint64]document.Document {
	t.Helper()
	var sequences []uint64
	for i := range n {
		sequences = append(sequences, uint64(i+1))
	}
	got, mu := map[uint64]document.Document{}, sync.Mutex{}
	if err := l.Refetch(natstest.Context(t), sequences, func(d document.Document) {
		mu.Lock()
		defer mu.Unlock()
		got[d.Sequence] = d
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// A document is tokenized once: all later reads, of this process and of the next one, return the same from the store.
func TestLog_TokenizesOnce(t *testing.T) {
	srv := natstest.Start(t)
	const n = 300
	messages := natstest.Documents(1, n)
	messages[10].ID = "some-id"
	plain := openLog(t, srv.Store())
	natstest.Publish(t, srv.Store(), messages...)
	want := refetchAll(t, plain, n)
	folder := t.TempDir()

	l, store := openStoredLog(t, srv.Store(), folder, true)
	src := openSource(t, l, 1)
	checkCounted(t, src, 1, n)
	src.settle()
	if err := src.Close(); err != nil {
		t.Fatal(err)
	}
	store.Close()

	l, store = openStoredLog(t, srv.Store(), folder, false)
	checkCounted(t, openSource(t, l, 1), 1, n)
	if diff := cmp.Diff(want, refetchAll(t, l, n)); diff != "" {
		t.Error(diff)
	}
	content, err := l.Content(natstest.Context(t), 11)
	if diff := cmp.Diff(want[11].Content, content); diff != "" || err != nil {
		t.Error(diff, err)
	}
	parts, err := l.PackingHints(natstest.Context(t), 11)
	if diff := cmp.Diff(want[11].Documents(), parts); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if s := store.Stats(); s.Hits < 2*n || s.Misses > 0 || s.Dropped > 0 {
		t.Errorf("stats %+v", s)
	}
}

// storeAll reads all documents of a stream into a token store.
func storeAll(t *testing.T, s *stream.Store, folder string, n int) {
	t.Helper()
	l, store := openStoredLog(t, s, folder, true)
	src := openSource(t, l, 1)
	for range n {
		nextDoc(t, src)
	}
	src.settle()
	if err := src.Close(); err != nil {
		t.Fatal(err)
	}
	store.Close()
}

// startWithDocuments starts a server that has n documents of natstest.Documents.
func startWithDocuments(t *testing.T, n int) *natstest.Server {
	t.Helper()
	srv := natstest.Start(t)
	openLog(t, srv.Store())
	natstest.Publish(t, srv.Store(), natstest.Documents(1, n)...)
	return srv
}

// startWithStored starts a server as startWithDocuments does. The token store in the folder has all documents.
func startWithStored(t *testing.T, n int) (srv *natstest.Server, folder string) {
	t.Helper()
	srv, folder = startWithDocuments(t, n), t.TempDir()
	storeAll(t, srv.Store(), folder, n)
	return srv, folder
}

// A reader reads no message of a stored document. It reads those of documents that are not stored, among stored ones
// and after them, and each document is as without the store.
func TestReader_ReadsTokenStore(t *testing.T) {
	srv := natstest.Start(t)
	const n, stored = 1000, 800
	openLog(t, srv.Store())
	messages := natstest.Documents(1, n)
	unusable := int64(0)
	for i := 20; i < stored; i += 70 {
		messages[i].Data = []byte("panic")[:i%4/2*5]
		unusable++
	}
	messages[400].Data = []byte(strings.Repeat("long ", 10_000))
	natstest.Publish(t, srv.Store(), messages[:stored]...)
	folder := t.TempDir()
	storeAll(t, srv.Store(), folder, stored)
	natstest.Publish(t, srv.Store(), messages[stored:]...)
	l, _ := openStoredLog(t, srv.Store(), folder, true)
	for _, buffer := range []int64{1 << 20, 1000} {
		docstream.SetBufferBytes(l, buffer)
		plain, src := openSource(t, openLog(t, srv.Store()), 1), openSource(t, l, 1)
		for range n {
			if diff := cmp.Diff(nextDoc(t, plain), nextDoc(t, src)); diff != "" {
				t.Fatal(diff)
			}
		}
		got, want := src.Status(), plain.Status()
		if got.Empty != want.Empty || got.Undecoded != want.Undecoded || got.Tokens != want.Tokens || got.Fetched != n {
			t.Errorf("status %+v, want %+v", got, want)
		}
		tail := int64(0)
		for _, m := range messages[stored-64:] { // the last stored ones may be read by the consumer
			tail += int64(len(m.Data))
		}
		if got.Empty+got.Undecoded != unusable || got.TextBytes > tail+5*unusable {
			t.Errorf("read %d bytes and %d unusable documents, want %d and %d", got.TextBytes, got.Empty+got.Undecoded,
				tail+5*unusable, unusable)
		}
	}
}

// A reader leaves its consumer when another process has stored the next documents.
func TestReader_LeavesConsumerForTokenStore(t *testing.T) {
	t.Parallel()
	const n = 2000
	srv, folder := startWithDocuments(t, n), t.TempDir()
	l, _ := openStoredLog(t, srv.Store(), folder, true)
	docstream.SetBufferBytes(l, 16<<10) // the reader waits for room most of the time,
	docstream.SetInactive(l, time.Hour) // and must not leave its consumer as idle
	src := openSource(t, l, 1)
	checkCounted(t, src, 1, 100)
	storeAll(t, srv.Store(), folder, n)
	natstest.Eventually(t, "the reader has no consumer", func() bool {
		st, err := srv.Store().JetStream().Stream(natstest.Context(t), srv.Store().Config().Name)
		return err == nil && st.CachedInfo().State.Consumers == 0
	})
	l, _ = openStoredLog(t, srv.Store(), t.TempDir(), true)
	whole := openSource(t, l, 1)
	checkCounted(t, whole, 1, n)
	checkCounted(t, src, 101, n-100)
	if got, all := src.Status().TextBytes, whole.Status().TextBytes; got > all/2 {
		t.Errorf("the reader has read messages of %d bytes, of %d", got, all)
	}
}

// The loss of a stored document is detected as without the store, before a reader starts and while it reads.
func TestReader_LostDocumentIsStored(t *testing.T) {
	t.Parallel()
	const n = 2000
	srv, folder := startWithStored(t, n)
	l, _ := openStoredLog(t, srv.Store(), folder, false)
	docstream.SetBufferBytes(l, 16<<10)
	src := openSource(t, l, 1)
	checkCounted(t, src, 1, 10)
	removeDocs(t, srv.Store(), 1500)
	removed := time.Now()
	natstest.Eventually(t, "the reader has checked the stream", func() bool {
		return src.Status().ConfirmedAt.After(removed)
	})
	checkCounted(t, src, 11, 1489)
	_, err := src.Next(natstest.Context(t))
	lostRange(t, err, 1500, 1500)
	src = openSource(t, l, 1000)
	checkCounted(t, src, 1000, 500)
	_, err = src.Next(natstest.Context(t))
	lostRange(t, err, 1500, 1500)
	purgeDocs(t, srv.Store(), 1600)
	_, err = l.Read(natstest.Context(t), 1550)
	lostRange(t, err, 1550, 1599)
}

// A reader that starts after all deleted documents reads the token store, unless more than 1,000 were deleted. One that
// starts before a deleted one detects the loss.
func TestReader_StartsAfterDeletedDocuments(t *testing.T) {
	t.Parallel()
	const n = 2000
	srv, folder := startWithStored(t, n)
	l, _ := openStoredLog(t, srv.Store(), folder, true)
	checkRead := func(first int, stored bool) {
		t.Helper()
		plain, src := openSource(t, openLog(t, srv.Store()), uint64(first)), openSource(t, l, uint64(first))
		checkCounted(t, plain, first, n-first+1)
		checkCounted(t, src, first, n-first+1)
		got, all := src.Status().TextBytes, plain.Status().TextBytes
		if stored != (got < all/10) {
			t.Errorf("from %d on the reader has read messages of %d bytes, of %d", first, got, all)
		}
	}
	removeDocs(t, srv.Store(), 100, 700)
	checkRead(701, true)
	src := openSource(t, l, 101)
	checkCounted(t, src, 101, 599)
	_, err := src.Next(natstest.Context(t))
	lostRange(t, err, 700, 700)
	var more []uint64
	for sequence := uint64(2); sequence <= 1002; sequence++ { // 1,001 documents with those before
		if sequence != 100 && sequence != 700 {
			more = append(more, sequence)
		}
	}
	removeDocs(t, srv.Store(), more...)
	checkRead(1003, false)
	removeDocs(t, srv.Store(), 1, n) // 1,003 is the first document
	src = openSource(t, l, 1500)
	checkCounted(t, src, 1500, n-1500)
	_, err = src.Next(natstest.Context(t))
	lostRange(t, err, n, n)
}

// Documents of a stream that was restored from a backup and has received other documents since are not used.
func TestLog_RestoredStream(t *testing.T) {
	for name, read := range map[string]func(*testing.T, *docstream.Log, int) map[uint64]document.Document{
		"refetch": refetchAll,
		"read": func(t *testing.T, l *docstream.Log, n int) map[uint64]document.Document {
			src, got := openSource(t, l, 1), map[uint64]document.Document{}
			for range n {
				d := nextDoc(t, src)
				got[d.Sequence] = d
			}
			return got
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := natstest.Start(t)
			const n = 20
			plain := openLog(t, srv.Store())
			natstest.Publish(t, srv.Store(), natstest.Documents(1, n)...)
			want := refetchAll(t, plain, n)
			folder := t.TempDir()
			l, store := openStoredLog(t, srv.Store(), folder, true)
			for sequence, d := range want {
				if sequence > n/2 { // as if these had been published before the stream was restored
					d.Stored -= int64(time.Hour)
					d.Tokens, d.NarrowTokens = []int32{1, 2, 3}, nil
				}
				docstream.PutStored(l, d)
			}
			store.Close()
			l, _ = openStoredLog(t, srv.Store(), folder, true)
			if diff := cmp.Diff(want, read(t, l, n)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(want, refetchAll(t, l, n)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Documents 51 to 100 of an earlier state of the stream are not used if the first reader after the restoration starts
// behind them, or if the stream was opened before it was restored.
func TestLog_RestoredStreamReadLater(t *testing.T) {
	for _, name := range []string{"reader behind them", "opened before"} {
		t.Run(name, func(t *testing.T) {
			srv := natstest.Start(t)
			const n = 200
			plain, folder := openLog(t, srv.Store()), t.TempDir()
			natstest.Publish(t, srv.Store(), natstest.Documents(1, 50)...)
			l, store := openStoredLog(t, srv.Store(), folder, true)
			first := openSource(t, l, 1)
			checkCounted(t, first, 1, 50)
			first.Close()
			other, otherStore := openStoredLog(t, srv.Store(), folder, true)
			natstest.Publish(t, srv.Store(), natstest.Documents(51, n-50)...)
			want := refetchAll(t, plain, n)
			for sequence := uint64(51); sequence <= 100; sequence++ {
				d := want[sequence]
				d.Stored -= int64(time.Hour)
				d.Tokens, d.NarrowTokens = []int32{1, 2, 3}, nil
				docstream.PutStored(other, d)
			}
			otherStore.Close()
			from := 51
			if name == "reader behind them" {
				from = 101
				store.Close()
				l, store = openStoredLog(t, srv.Store(), folder, true)
			}
			checkCounted(t, openSource(t, l, uint64(from)), from, n-from+1)
			store.Close()
			l, _ = openStoredLog(t, srv.Store(), folder, true)
			src, again := openSource(t, l, 1), refetchAll(t, l, n)
			for sequence := uint64(1); sequence <= n; sequence++ {
				if diff := cmp.Diff(want[sequence], nextDoc(t, src)); diff != "" {
					t.Fatal(diff)
				}
				if diff := cmp.Diff(want[sequence], again[sequence]); diff != "" {
					t.Fatal(diff)
				}
			}
		})
	}
}

// A document that is read again has the same content after any damage to the files of the store.
func TestLog_DamagedTokenStore(t *testing.T) {
	srv := natstest.Start(t)
	const n = 200
	plain := openLog(t, srv.Store())
	natstest.Publish(t, srv.Store(), natstest.Documents(1, n)...)
	want := refetchAll(t, plain, n)
	folder := t.TempDir()
	l, store := openStoredLog(t, srv.Store(), folder, true)
	refetchAll(t, l, n)
	store.Close()
	names := segments(t, folder)
	if len(names) != 1 {
		t.Fatal(names)
	}
	whole, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := 8; i < len(whole); i += len(whole) / 40 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			b := slices.Clone(whole)
			b[i] ^= 0x10
			if i%3 == 0 {
				b = b[:i]
			}
			for _, name := range segments(t, folder) {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(names[0], b, 0o600); err != nil {
				t.Fatal(err)
			}
			l, store := openStoredLog(t, srv.Store(), folder, true)
			for range 2 {
				if diff := cmp.Diff(want, refetchAll(t, l, n)); diff != "" {
					t.Fatal(diff)
				}
			}
			store.Close()
		})
	}
}

// segments returns the files of a token store that have documents.
func segments(t *testing.T, folder string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*", "*-*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}
