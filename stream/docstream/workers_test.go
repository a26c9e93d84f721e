package docstream_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/docstream"
	"loaderd/stream/publish"
)

func TestReader_LargeDocuments(t *testing.T) {
	t.Parallel()
	for _, buffer := range []int64{1 << 20, 64 << 20} {
		srv := natstest.Start(t, func(c *stream.Config) { c.BufferBytes = buffer })
		l := openLog(t, srv.Store())
		large := bytes.Repeat([]byte("0123456789"), 3<<20) // about as large as a stream takes
		natstest.Publish(t, srv.Store(), natstest.Documents(1, 100)...)
		natstest.Publish(t, srv.Store(), stream.Message{Data: large})
		natstest.Publish(t, srv.Store(), stream.Message{Data: large[:300<<10]}, stream.Message{Data: large[:3<<20]})
		natstest.Publish(t, srv.Store(), natstest.Documents(104, 100)...)
		src := openSource(t, l, 1)
		checkCounted(t, src, 1, 100)
		for i, want := range [][]byte{large, large[:300<<10], large[:3<<20]} {
			if d := nextDoc(t, src); docText(t, d) != string(want) {
				t.Errorf("document %d of %d bytes arrived as %d tokens", 101+i, len(want), d.Len())
			}
		}
		checkCounted(t, src, 104, 100)
	}
}

// Documents between the wire and Next stay within the configured bytes, plus one document.
func TestReader_BufferIsBounded(t *testing.T) {
	const bound, size, n = 4 << 20, 10 << 10, 2000
	srv := natstest.Start(t, func(c *stream.Config) { c.BufferBytes, c.Workers = bound, 2 })
	l := openLog(t, srv.Store())
	messages := make([]stream.Message, n)
	for i := range messages {
		messages[i].Data = bytes.Repeat([]byte{byte(i % 128)}, size)
	}
	natstest.Publish(t, srv.Store(), messages...)
	src := openSource(t, l, 1)
	check := func() int64 {
		held := src.Status().Buffered
		if held > bound+5*size {
			t.Fatalf("%d bytes are buffered, the bound is %d and a document has %d", held, bound, size)
		}
		return held
	}
	// Without calls of Next it fills up and stops.
	full := int64(0)
	natstest.Eventually(t, "the buffer is full", func() bool { full = max(full, check()); return full > bound*3/4 })
	stopped := src.Status().Fetched
	if stopped >= n/2 {
		t.Fatalf("%d documents were fetched into a buffer of %d", stopped, bound)
	}
	for i := range n {
		d := nextDoc(t, src)
		if d.Len() != size+1 || d.NarrowTokens[0] != uint16(i%128) {
			t.Fatalf("document %d has %d tokens of %d", i+1, d.Len(), d.NarrowTokens[0])
		}
		check()
	}
	src.settle()
	if held := check(); held != 0 {
		t.Errorf("%d bytes are buffered at the end", held)
	}
}

// A full buffer is refilled in small portions as soon as a little of it is free, not when a quarter is.
func TestReader_RefillsInSmallPortions(t *testing.T) {
	const bound, size, n, taken = 8 << 20, 10 << 10, 1500, 24
	srv := natstest.Start(t, func(c *stream.Config) { c.BufferBytes = bound })
	l := openLog(t, srv.Store())
	natstest.Publish(t, srv.Store(), slices.Repeat([]stream.Message{{Data: bytes.Repeat([]byte("x"), size)}}, n)...)
	src := openSource(t, l, 1)
	for range 5 {
		full := uint64(0)
		natstest.Eventually(t, "the buffer is full", func() bool {
			before, s := full, src.Status()
			full = s.Fetched
			return s.Buffered > bound*3/4 && full == before
		})
		for range taken { // a tenth of what the buffer holds
			nextDoc(t, src)
		}
		natstest.Eventually(t, "more is fetched", func() bool { return src.Status().Fetched > full })
	}
}

// Documents count until the caller of Next requests the next ones. Until then they are neither delivered nor free in
// the budget.
func TestReader_BorrowedDocumentsCountInBudget(t *testing.T) {
	srv := natstest.Start(t)
	l := openLog(t, srv.Store())
	natstest.Publish(t, srv.Store(), natstest.Documents(1, 10)...)
	src := openSource(t, l, 1)
	natstest.Eventually(t, "all documents are fetched", func() bool { return src.Status().Fetched == 10 })
	checkCounted(t, src, 1, 10)
	last := src.Status()
	if last.Delivered >= 10 || last.Buffered == 0 {
		t.Errorf("in hand: %+v", last)
	}
	src.settle()
	if s := src.Status(); s.Delivered != 10 || s.Buffered != 0 {
		t.Errorf("done with: %+v", s)
	}
}

// gate is an Encoder that finishes documents out of order: one with an odd first byte waits for the next one.
type gate struct {
	running, most *atomic.Int64
	even          chan struct{}
}

func (g gate) EncodePart(dst []int32, text []byte, first, last bool) []int32 {
	g.most.Store(max(g.most.Load(), g.running.Add(1)))
	defer g.running.Add(-1)
	if text[0] == 'o' {
		<-g.even
	} else {
		g.even <- struct{}{}
	}
	return bytesEncoder{}.EncodePart(dst, text[1:], true, true)
}

func TestReader_WorkersKeepOrder(t *testing.T) {
	srv := natstest.Start(t, func(c *stream.Config) { c.Workers = 2 })
	var running, most atomic.Int64
	tokenizing := bytesTokenizing
	even := make(chan struct{})
	tokenizing.NewEncoder = func() docstream.Encoder { return gate{&running, &most, even} }
	l, err := docstream.Open(natstest.Context(t), srv.Store(), tokenizing)
	if err != nil {
		t.Fatal(err)
	}
	// Each document is as large as a chunk gets, and so in a separate chunk.
	const n = 40
	padding := bytes.Repeat([]byte("."), 64<<10)
	for i := range n {
		natstest.Publish(t, srv.Store(), stream.Message{Data: append([]byte{"oe"[i%2], byte(i)}, padding...)})
	}
	src := openSource(t, l, 1)
	for i := range n {
		if d := nextDoc(t, src); d.Sequence != uint64(i+1) || d.NarrowTokens[0] != uint16(i) {
			t.Fatalf("document %d arrived as sequence %d with %d", i+1, d.Sequence, d.NarrowTokens[0])
		}
	}
	if most.Load() != 2 {
		t.Errorf("at most %d documents were tokenized at a time, want 2", most.Load())
	}
}

// goroutines counts those that this package started. A server and a client may have other goroutines at any time.
func goroutines() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "\ncreated by loaderd/stream.")
}

func TestReader_CloseLeavesNoGoroutinesOrConsumers(t *testing.T) {
	srv := natstest.Start(t)
	l := openLog(t, srv.Store())
	natstest.Publish(t, srv.Store(), natstest.Documents(1, 5000)...)
	before := goroutines()
	for i := range 40 {
		src := openSource(t, l, 1)
		if i >= 20 { // while its consumer is being made
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
			i = 0
		}
		checkCounted(t, src, 1, i)
		if err := src.Close(); err != nil {
			t.Fatal(err)
		}
		if err := src.Close(); err != nil {
			t.Errorf("closed twice: %v", err)
		}
	}
	natstest.Eventually(t, "the readers' goroutines are gone", func() bool { return goroutines() <= before })
	natstest.Eventually(t, "the readers' consumers are gone", func() bool {
		st, err := srv.Store().EnsureDocuments(natstest.Context(t))
		return err == nil && st.CachedInfo().State.Consumers == 0
	})
}

// trivialEncoder is a tokenizer of nearly no cost, with one id per four bytes.
type trivialEncoder struct{}

func (trivialEncoder) EncodePart(dst []int32, text []byte, first, last bool) []int32 {
	for i := 0; i < len(text); i += 4 {
		dst = append(dst, int32(text[i]))
	}
	return dst
}

// BenchmarkRead reads documents of 4 KB from an embedded server in the same process, which shares the cores with the
// reader. cpu-us/doc is the processor time of all goroutines, which hardly depends on other work on the machine.
func BenchmarkRead(b *testing.B) {
	const n, size = 20_000, 4 << 10
	payload := bytes.Repeat([]byte("text"), size/4)
	for _, kind := range []struct {
		name    string
		message stream.Message
	}{
		{"text", stream.Message{Data: payload}},
		{"json", stream.Message{ContentType: stream.TypeJSON, Data: append(append([]byte(`{"id":"1","text":"`), payload...),
			`"}`...)}},
		{"tokens", stream.Message{ContentType: stream.TypeTokens, Tokenizer: "sha256:trivial", Data: make([]byte, size)}},
	} {
		store := published(b, n, kind.message)
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/workers=%d", kind.name, workers), func(b *testing.B) {
				l, err := docstream.Open(b.Context(), store, docstream.Tokenization{
					NewEncoder: func() docstream.Encoder {
						return trivialEncoder{}
					}, Fingerprint: "sha256:trivial", VocabSize: 256, End: -1})
				if err != nil {
					b.Fatal(err)
				}
				docstream.SetWorkers(l, workers)
				b.SetBytes(n * size)
				b.ReportAllocs()
				before := processorTime(b)
				for b.Loop() {
					src := openSource(b, l, 1)
					for range n {
						nextDoc(b, src)
					}
					src.Close()
				}
				docs := float64(n) * float64(b.N)
				b.ReportMetric(docs/b.Elapsed().Seconds(), "docs/s")
				b.ReportMetric(float64((processorTime(b)-before).Microseconds())/docs, "cpu-us/doc")
			})
		}
	}
}

// published returns a store whose document stream has a message n times.
func published(b *testing.B, n int, m stream.Message) *stream.Store {
	store := natstest.Start(b, func(c *stream.Config) { c.MaxBytes = 1 << 30 }).Store()
	openLog(b, store)
	p, err := publish.New(b.Context(), store, "web", publish.Options{}) // in batches; one by one takes minutes
	if err != nil {
		b.Fatal(err)
	}
	for range n {
		if err := p.Publish(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := p.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	p.Close()
	return store
}

// BenchmarkRead_ShortDocuments reads documents of 60 tokens, one or many per message. The time is per document.
func BenchmarkRead_ShortDocuments(b *testing.B) {
	const documents, tokens = 131_072, 60
	row := `{"ids":[` + strings.Repeat("7,", tokens-1) + `7]}`
	for _, of := range []int{1, 16, 256} {
		m := stream.Message{ContentType: stream.TypeTokens, Tokenizer: bytesTokenizing.Fingerprint,
			Data: make([]byte, 4*tokens)}
		if of > 1 {
			m = batchOf(b, fieldsOf(idsField), "["+strings.Repeat(row+",", of-1)+row+"]")
		}
		store := published(b, documents/of, m)
		b.Run(fmt.Sprintf("documents=%d", of), func(b *testing.B) {
			l := openBatches(b, store)
			before := processorTime(b)
			for b.Loop() {
				src := openSource(b, l, 1)
				for range documents / of {
					nextDoc(b, src)
				}
				src.Close()
			}
			docs := float64(documents) * float64(b.N)
			b.ReportMetric(docs/b.Elapsed().Seconds(), "docs/s")
			b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/docs, "cpu-ns/doc")
		})
	}
}

// processorTime returns what this process has used so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A reader with a full queue closes immediately, although the queue is never read.
func TestReader_CloseWithFullQueue(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	src := openSource(t, openLog(t, srv.Store()), 1)
	const most = 4096                 // chunks between fetching and Next
	for i := range uint64(most + 1) { // one by one, so that each is a separate chunk
		natstest.Publish(t, srv.Store(), natstest.Documents(int(i)+1, 1)...)
		for natstest.Context(t).Err() == nil && src.Status().Fetched < i+1 {
			time.Sleep(20 * time.Microsecond)
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- src.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Close does not return")
	}
}
