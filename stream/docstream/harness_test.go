package docstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"loaderd/internal/natstest"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/stream"
	"loaderd/stream/docstream"
)

// testEnd is the end token of bytesTokenizing, whose ids are the bytes of the text.
const testEnd = 256

type bytesEncoder struct{}

func (bytesEncoder) EncodePart(dst []int32, text []byte, _, _ bool) []int32 {
	if bytes.HasPrefix(text, []byte("panic")) {
		panic("cannot take this text")
	}
	for _, c := range text {
		dst = append(dst, int32(c))
	}
	return dst
}

var bytesTokenizing = docstream.Tokenization{
	NewEncoder:  func() docstream.Encoder { return bytesEncoder{} },
	Fingerprint: "sha256:bytes", VocabSize: 257, End: testEnd,
}

func openLog(t testing.TB, s *stream.Store) *docstream.Log {
	t.Helper()
	l, err := docstream.Open(natstest.Context(t), s, bytesTokenizing)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// source returns the documents of a source chunk by chunk.
type source struct {
	document.Source
	held     []document.Document
	received bool // a chunk was received and is not delivered yet
}

// Next delivers the previous documents and waits for the next ones.
func (s *source) Next(ctx context.Context) ([]document.Document, error) {
	s.settle()
	docs, err := document.Receive(ctx, s.Source)
	s.received = err == nil
	return docs, err
}

func openSource(t testing.TB, l *docstream.Log, from uint64) *source {
	t.Helper()
	src, err := l.Read(natstest.Context(t), from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { src.Close() })
	return &source{Source: src}
}

func nextDoc(t testing.TB, src *source) document.Document {
	t.Helper()
	if len(src.held) == 0 {
		docs, err := src.Next(natstest.Context(t))
		if err != nil {
			t.Fatalf("next documents: %v", err)
		}
		src.held = docs
	}
	d := src.held[0]
	src.held = src.held[1:]
	return d
}

// settle delivers the documents that nextDoc has returned.
func (s *source) settle() {
	if s.received {
		s.ReleaseChunk()
		s.received = false
	}
}

// docText returns a document's tokens as text, without the end.
func docText(t testing.TB, d document.Document) string {
	t.Helper()
	n := d.Len()
	if n == 0 || d.TokenIDs(n-1, n)[0] != testEnd {
		t.Fatalf("document %d (%s) does not end with the end token", d.Sequence, d.Skip)
	}
	out := make([]byte, n-1)
	for i, id := range d.TokenIDs(0, n-1) {
		out[i] = byte(id)
	}
	return string(out)
}

// checkCounted reads n documents of counted from the source and checks that each arrives once, in order.
func checkCounted(t testing.TB, src *source, first, n int) {
	t.Helper()
	for i := first; i < first+n; i++ {
		d := nextDoc(t, src)
		if d.Sequence != uint64(i) {
			t.Fatalf("received sequence %d instead of %d", d.Sequence, i)
		}
		if got, want := docText(t, d), "document "+strconv.Itoa(i); got != want {
			t.Fatalf("document %d is %q, want %q", i, got, want)
		}
	}
}

// lostRange checks that err is DOCUMENT_LOST for exactly these sequences of the stream.
func lostRange(t testing.TB, err error, from, to uint64) {
	t.Helper()
	var lost *fault.Error
	if !errors.As(err, &lost) || lost.Reason != fault.DocumentLost {
		t.Fatalf("error is %v, want %s", err, fault.DocumentLost)
	}
	f := lost.Facts
	if f["stream"] != "DOCS" || f["first_missing"] != fmt.Sprint(from) || f["last_missing"] != fmt.Sprint(to) {
		t.Errorf("facts are %v, want sequences %d to %d of DOCS", f, from, to)
	}
	if !strings.Contains(err.Error(), "DOCS") || !strings.Contains(err.Error(), fmt.Sprint(from)) {
		t.Errorf("message names neither stream nor range: %v", err)
	}
}
