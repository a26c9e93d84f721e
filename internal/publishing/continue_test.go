package publishing_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"loaderd/internal/corpus"
	"loaderd/internal/natstest"
	"loaderd/internal/objects"
	"loaderd/internal/objecttest"
	"loaderd/internal/publishing"
	streampublish "loaderd/stream/publish"
)

// stopAt is a Tracer that calls stop when a number of documents are offered to the publisher.
type stopAt struct {
	documents int
	stop      func()
}

func (s *stopAt) Publish(string, string) (string, func()) {
	if s.documents--; s.documents == 0 {
		s.stop()
	}
	return "", nil
}

// randomTexts returns texts that do not compress well.
func randomTexts(n, bytes int) (texts []string) {
	source, data := rand.NewChaCha8([32]byte{1}), make([]byte, bytes/2)
	for i := range n {
		_, _ = source.Read(data)
		texts = append(texts, fmt.Sprintf("text %d %x", i, data))
	}
	return texts
}

func jsonLines(texts []string) []byte {
	var b bytes.Buffer
	for i, text := range texts {
		if i%9 == 5 {
			b.WriteString("not JSON\n\n")
		}
		fmt.Fprintf(&b, "{\"text\": %q}\n", text)
	}
	return b.Bytes()
}

// webArchive returns a web archive with a gzip member per record. Every tenth record has no document.
func webArchive(t *testing.T, texts []string) []byte {
	t.Helper()
	var b bytes.Buffer
	for i, text := range texts {
		kinds := []string{"text/plain"}
		if i%10 == 3 {
			kinds = []string{"image/png", "text/plain"}
		}
		for _, kind := range kinds {
			z := gzip.NewWriter(&b)
			_, err := fmt.Fprintf(z, "WARC/1.0\r\nWARC-Type: conversion\r\nContent-Type: %s\r\n"+
				"Content-Length: %d\r\n\r\n%s\r\n\r\n", kind, len(text), text)
			if err = errors.Join(err, z.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b.Bytes()
}

// parquetTable returns a Parquet file with the column text and a number of rows per row group.
func parquetTable(t *testing.T, texts []string, group int) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "text", Type: arrow.BinaryTypes.String}}, nil)
	var b bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &b, parquet.NewWriterProperties(parquet.WithDictionaryDefault(false)),
		pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	for some := range slices.Chunk(texts, group) {
		column := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		column.Field(0).(*array.StringBuilder).AppendValues(some, nil)
		rows := column.NewRecord()
		if err := w.Write(rows); err != nil {
			t.Fatal(err)
		}
		rows.Release()
		column.Release()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// megatronPair returns a Megatron index and its ids, of 4 bytes each.
func megatronPair(documents, tokens int) (index, ids []byte) {
	index = binary.LittleEndian.AppendUint64([]byte("MMIDIDX\x00\x00"), 1)
	index = append(index, 4) // int32
	index = binary.LittleEndian.AppendUint64(index, uint64(documents))
	index = binary.LittleEndian.AppendUint64(index, uint64(documents+1))
	for range documents {
		index = binary.LittleEndian.AppendUint32(index, uint32(tokens))
	}
	for i := range documents {
		index = binary.LittleEndian.AppendUint64(index, uint64(4*tokens*i))
	}
	for i := range documents + 1 {
		index = binary.LittleEndian.AppendUint64(index, uint64(i))
	}
	for i := range documents * tokens {
		ids = binary.LittleEndian.AppendUint32(ids, uint32(i*7919%50_000))
	}
	return index, ids
}

// continuing publishes the files of a pattern in parts.
type continuing struct {
	server  *natstest.Server
	pattern string
	corpus  corpus.Options
	options publishing.Options
}

// run publishes until a number of further documents are offered to the publisher, 0 for all. It is then interrupted, or
// killed: neither the batch in flight nor the record is awaited.
func (c continuing) run(t *testing.T, limit int, kill bool) (publishing.Summary, error) {
	t.Helper()
	inputs, err := corpus.Open(t.Context(), []string{c.pattern}, nil, c.corpus)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := &stopAt{documents: limit, stop: cancel}
	o := c.options
	o.Tracer = stop
	p, err := publishing.Open(t.Context(), c.server.Store(), inputs, o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if kill {
		stop.stop = func() { go p.Close() }
	}
	return p.Run(ctx)
}

// A publishing that is killed or interrupted again and again results in the same stream as one that is not. After an
// interruption, an object is not requested again from its beginning.
func TestPublish_ContinuesWithinInputs(t *testing.T) {
	const documents, size, step, group = 300, 5000, 50, 15
	texts := randomTexts(documents, size)
	index, ids := megatronPair(documents, size/4)
	folder := map[string][]byte{}
	for i, text := range texts {
		folder[fmt.Sprintf("text.%03d", i)] = []byte(text)
	}
	s3 := objecttest.NewS3(t)
	t.Setenv("AWS_ENDPOINT_URL", s3.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "us-east-1")
	for name, files := range map[string]map[string][]byte{
		"lines": {"a.jsonl": jsonLines(texts)}, "mds": {"a.mds": objecttest.Shard(texts)},
		"warc": {"a.warc.gz": webArchive(t, texts)}, "parquet": {"a.parquet": parquetTable(t, texts, group)},
		"megatron": {"a.idx": index, "a.bin": ids}, "texts": folder,
	} {
		local, total := filepath.Join(t.TempDir(), name), 0
		if err := os.Mkdir(local, 0o700); err != nil {
			t.Fatal(err)
		}
		for file, data := range files {
			if err := os.WriteFile(filepath.Join(local, file), data, 0o600); err != nil {
				t.Fatal(err)
			}
			s3.Web.Put("/bucket/"+name+"/"+file, data)
			total += len(data)
		}
		requested := func() (n int64) {
			for file := range files {
				bytes, _ := s3.Web.Requested("/bucket/" + name + "/" + file)
				n += bytes
			}
			s3.Web.ResetRequests()
			return n
		}
		var want []string
		for _, pattern := range []string{local, "s3://bucket/" + name + "/"} {
			t.Run(pattern, func(t *testing.T) {
				c := continuing{newStream(t), pattern, corpus.Options{Stores: objects.New(objects.Options{})},
					publishing.Options{Source: "s", BatchBytes: 40_000, SkipInvalid: true}}
				if name == "megatron" {
					c.corpus.Tokens, c.options.Fingerprint = true, "f"
				}
				if want == nil {
					if _, err := c.run(t, 0, false); err != nil {
						t.Fatal(err)
					}
					want, c.server = storedTexts(t, c.server), newStream(t)
				}
				stored, err := 0, error(nil)
				for round := 0; ; round++ {
					if _, err = c.run(t, step, round%3 == 0); err == nil {
						break
					}
					if !errors.Is(err, context.Canceled) && !errors.Is(err, streampublish.ErrClosed) {
						t.Fatal(err)
					}
					extra := 200_000
					if name == "parquet" { // its format is found in 64 KiB at each end, a group may be read again
						extra = 2<<16 + group*size + 20_000
					}
					limit := total*(documents-stored)/documents + extra
					if round%3 == 2 && requested() > int64(limit) {
						t.Errorf("after %d of %d documents, more than %d of %d bytes are requested", stored, documents, limit, total)
					}
					requested()
					stored = len(storedTexts(t, c.server))
				}
				if got := storedTexts(t, c.server); len(got) != documents || !slices.Equal(got, want) {
					t.Errorf("%d documents, want %d as without interruptions", len(got), len(want))
				}
				if sum, err := c.run(t, 0, false); err != nil || sum.AlreadyStored != documents {
					t.Errorf("again: %+v, %v", sum, err)
				}
			})
		}
	}
}
