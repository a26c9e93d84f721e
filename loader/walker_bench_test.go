package loader_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	settings "loaderd/internal/config"
	"loaderd/internal/corpus/gosource"
	"loaderd/internal/daemon"
	"loaderd/internal/natstest"
	"loaderd/loader/document"
	"loaderd/loader/internal/feed"
	"loaderd/loader/mixture"
	"loaderd/stream"
	"loaderd/stream/docstream"
	"loaderd/stream/tokenstore"
)

// BenchmarkEpochReader reads a sealed source of 40,000 documents from a real server and tokenizes them. Each document
// is 4 KB of Go source, about the size of a web page's text. It is read in stream order, as a live source is, and
// shuffled in blocks.
func BenchmarkEpochReader(b *testing.B) {
	const documents, size = 40000, 4000
	srv := natstest.Start(b)
	tokens, _, err := daemon.LoadTokenizer(settings.Default().Tokenizer)
	if err != nil {
		b.Fatal(err)
	}
	text := goSource(b)
	ctx := b.Context()
	docs, err := docstream.Open(ctx, srv.Store(), tokens)
	if err != nil {
		b.Fatal(err)
	}
	var messages []stream.Message
	for i := range documents {
		messages = append(messages, stream.Message{ID: fmt.Sprint(i), Data: text[i%(len(text)/size)*size:][:size]})
	}
	natstest.Publish(b, srv.Store(), messages...)
	read := func(b *testing.B, open func() (document.Source, error)) {
		for b.Loop() {
			source, err := open()
			if err != nil {
				b.Fatal(err)
			}
			drain(b, source, documents)
		}
		b.ReportMetric(float64(documents*b.N)/b.Elapsed().Seconds(), "documents/s")
	}
	b.Run("stream", func(b *testing.B) { read(b, func() (document.Source, error) { return docs.Read(ctx, 1) }) })
	folder := b.TempDir()
	b.Run("stream, storing", func(b *testing.B) {
		read(b, func() (document.Source, error) { return openStored(b, srv.Store(), tokens, b.TempDir()).Read(ctx, 1) })
		source, err := openStored(b, srv.Store(), tokens, folder).Read(ctx, 1)
		if err != nil {
			b.Fatal(err)
		}
		drain(b, source, documents)
	})
	stored := openStored(b, srv.Store(), tokens, folder)
	b.Run("stream, stored", func(b *testing.B) {
		read(b, func() (document.Source, error) { return stored.Read(ctx, 1) })
	})
	for _, block := range []int{8, 16, 32, 64, 256} {
		c := mixture.Config{Sources: map[string]mixture.Source{"a": {Weight: 1, Epochs: 1, Block: block}},
			Mix: mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll}}
		m, err := mixture.New(c, map[string]mixture.SourceRange{"a": {First: 1, Last: documents, Sealed: true}})
		if err != nil {
			b.Fatal(err)
		}
		for name, from := range map[string]*docstream.Log{"": docs, ", stored": stored} {
			b.Run(fmt.Sprint("blocks of ", block, name), func(b *testing.B) {
				read(b, func() (document.Source, error) { return feed.NewEpochReader(from, m.EpochOrder(0, 0), 0, 1<<25), nil })
			})
		}
	}
}

// openStored opens the document stream with a token store.
func openStored(b *testing.B, s *stream.Store, tokens docstream.Tokenization, folder string) *docstream.Log {
	store, err := tokenstore.Open(folder, 4<<30, "", slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(store.Close)
	tokens.Store = store
	docs, err := docstream.Open(b.Context(), s, tokens)
	if err != nil {
		b.Fatal(err)
	}
	return docs
}

// drain reads documents from a source and closes it.
func drain(b *testing.B, source document.Source, documents int) {
	for n := 0; n < documents; {
		docs, err := document.Receive(context.Background(), source)
		if err != nil {
			b.Fatal(err)
		}
		n += len(docs)
		source.ReleaseChunk()
	}
	source.Close()
}

// goSource returns text of Go's source tree.
func goSource(b *testing.B) (text []byte) {
	source, err := gosource.Dir(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(source, "*", "*.go"))
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		text = append(text, bytes.ToValidUTF8(data, nil)...)
	}
	return text
}
