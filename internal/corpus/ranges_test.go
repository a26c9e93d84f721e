package corpus_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
	"loaderd/internal/objects"
	"loaderd/internal/objecttest"
)

// bucket is a bucket of S3 whose requests are counted.
type bucket struct {
	*objecttest.Web
	stores *objects.Stores
}

// newBucket stores files by their names in a bucket, s3://b.
func newBucket(t *testing.T, files map[string][]byte) bucket {
	t.Helper()
	s3 := objecttest.NewS3(t)
	t.Setenv("AWS_ENDPOINT_URL", s3.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "us-east-1")
	for name, data := range files {
		s3.Web.Put("/bucket/"+name, data)
	}
	return bucket{s3.Web, objects.New(objects.Options{RetryTimeout: 1})}
}

// requested returns how many bytes of a file were requested, and resets the counter.
func (b bucket) requested(name string) int64 {
	n, _ := b.Requested("/bucket/" + name)
	b.ResetRequests()
	return n
}

// entries reads an input from a position on. It returns the entries, with the position after each, and how many
// entries precede the first one.
func entries(t *testing.T, in *corpus.Input, from corpus.Position) (all []string, at []corpus.Position, skipped int64,
	err error) {
	t.Helper()
	in.StartAt(from)
	for d, err := range in.Documents(t.Context()) {
		var left *record.SkipError
		if err != nil && !errors.As(err, &left) {
			return all, at, in.SkippedEntries(), err
		}
		if left != nil {
			err = left.Err
		}
		all, at = append(all, fmt.Sprint(d.Label, string(d.Data), err)), append(at, in.Position())
		skipped = in.SkippedEntries()
	}
	return all, at, skipped, nil
}

// open returns the inputs of addresses.
func (b bucket) open(t *testing.T, o corpus.Options, patterns ...string) []*corpus.Input {
	t.Helper()
	o.Stores = b.stores
	inputs, err := corpus.Open(t.Context(), patterns, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	return inputs
}

// Of a Parquet object, the footer and the column chunks of the wanted columns are requested, once; after a kill only
// those of the remaining row groups.
func TestParquet_RequestsOnlyWantedColumns(t *testing.T) {
	const groups, rows = 20, 50
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "image", Type: arrow.BinaryTypes.Binary}, {Name: "text", Type: arrow.BinaryTypes.String}}, nil)
	path := filepath.Join(t.TempDir(), "a.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := pqarrow.NewFileWriter(schema, f, parquet.NewWriterProperties(parquet.WithDictionaryDefault(false)),
		pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	noise := rand.NewChaCha8([32]byte{1})
	for i := range groups * rows {
		image := make([]byte, 10_000)
		_, _ = noise.Read(image)
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.BinaryBuilder).Append(image)
		b.Field(2).(*array.StringBuilder).Append(fmt.Sprintf("row %d %x", i, image[:400]))
		if i%rows == rows-1 {
			rec := b.NewRecord()
			if err := w.Write(rec); err != nil {
				t.Fatal(err)
			}
			rec.Release()
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s3 := newBucket(t, map[string][]byte{"a.parquet": data})
	local, err := corpus.Open(t.Context(), []string{path}, nil, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, _, _, err := entries(t, local[0], corpus.Position{})
	if err != nil || len(want) != groups*rows {
		t.Fatalf("%d rows, %v", len(want), err)
	}
	got, positions, _, err := entries(t, s3.open(t, corpus.Options{}, "s3://bucket/a.parquet")[0], corpus.Position{})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%d rows, want %d, %v", len(got), len(want), err)
	}
	texts := int64(groups * rows * 900)
	if n := s3.requested("a.parquet"); n < texts/2 || n > texts+200_000 {
		t.Errorf("requested %d of %d bytes for %d of texts", n, len(data), texts)
	}
	const from = 15*rows + 7
	got, _, skipped, err := entries(t, s3.open(t, corpus.Options{}, "s3://bucket/a.parquet")[0], positions[from])
	if err != nil || skipped != 15*rows || !reflect.DeepEqual(got, want[skipped:]) {
		t.Fatalf("%d rows after %d, %v", len(got), skipped, err)
	}
	if n := s3.requested("a.parquet"); n > texts/4+200_000 {
		t.Errorf("requested %d bytes for the last quarter of the texts, of %d", n, texts)
	}
	// A file that is replaced by another one of the same size is an error.
	in := s3.open(t, corpus.Options{}, "s3://bucket/a.parquet")[0]
	n := 0
	for _, err = range in.Documents(t.Context()) {
		if n++; n == 10 {
			s3.Put("/bucket/a.parquet", bytes.Replace(data, []byte("row 999 "), []byte("row 998 "), 1))
		}
	}
	if !objects.IsKind(err, objects.Changed) {
		t.Errorf("after %d rows: %v", n, err)
	}
}

// shardsOf returns n shards of MDS with samples each, and their index.
func shardsOf(t *testing.T, n, samples int, codec string) (files map[string][]byte, documents []string) {
	t.Helper()
	files = map[string][]byte{}
	var index []map[string]any
	for i := range n {
		var texts []string
		for k := range samples {
			texts = append(texts, fmt.Sprintf("shard %d sample %d %0*d", i, k, 50+k%400, k))
		}
		documents = append(documents, texts...)
		shard, name := describedShard(texts...), fmt.Sprintf("shard.%05d.mds", i)
		entry := map[string]any{
			"samples": samples, "raw_data": mdsFile(name, len(shard)), "compression": nil, "zip_data": nil,
		}
		if codec != "" {
			entry["compression"] = codec
			shard, name = packShard(t, codec, shard), name+"."+codec
			entry["zip_data"] = mdsFile(name, len(shard))
		}
		files["set/"+name], index = []byte(shard), append(index, entry)
	}
	files["set/index.json"] = []byte(mdsIndex(t, index...))
	return files, documents
}

// contents returns the documents of inputs without their labels, and the first error.
func contents(t *testing.T, inputs []*corpus.Input) (all []string, _ error) {
	t.Helper()
	for _, in := range inputs {
		for d, err := range in.Documents(t.Context()) {
			if err != nil {
				return all, err
			}
			all = append(all, string(d.Data))
		}
	}
	return all, nil
}

// Shards in a store are read with their index, or without, in every compression, and each object once.
func TestMDS_ShardsInStore(t *testing.T) {
	for _, codec := range []string{"", "zstd", "gz", "br", "snappy"} {
		for _, indexed := range []bool{true, false} {
			t.Run(fmt.Sprint(codec, " indexed=", indexed), func(t *testing.T) {
				files, want := shardsOf(t, 3, 100, codec)
				files["set/README.md"] = []byte("not a document")
				if !indexed {
					delete(files, "set/index.json")
					delete(files, "set/README.md")
				}
				s3 := newBucket(t, files)
				got, err := contents(t, s3.open(t, corpus.Options{}, "s3://bucket/set/"))
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Fatalf("%d documents, want %d, %v", len(got), len(want), err)
				}
				for name, data := range files {
					n, requests := s3.Requested("/bucket/" + name)
					if path.Ext(name) != ".md" && path.Ext(name) != ".json" && (n != int64(len(data)) || requests != 1) {
						t.Errorf("%s: %d of %d bytes in %d requests", name, n, len(data), requests)
					}
				}
			})
		}
	}
}

// Incomplete data sets in a store are errors that name the object.
func TestMDS_IncompleteStore(t *testing.T) {
	open := func(t *testing.T, files map[string][]byte) ([]string, error) {
		s3 := newBucket(t, files)
		inputs, err := corpus.Open(t.Context(), []string{"s3://bucket/set/"}, nil, corpus.Options{Stores: s3.stores})
		if err != nil {
			return nil, err
		}
		return contents(t, inputs)
	}
	for name, c := range map[string]struct {
		change func(files map[string][]byte)
		want   string
	}{
		"a missing shard": {func(files map[string][]byte) { delete(files, "set/shard.00001.mds") },
			"s3://bucket/set/index.json names the shard shard.00001.mds, which is not among the objects"},
		"a truncated shard": {func(files map[string][]byte) {
			files["set/shard.00001.mds"] = files["set/shard.00001.mds"][:1000]
		}, "read s3://bucket/set/shard.00001.mds: it has 1000 bytes, index.json states"},
		"a truncated shard without an index": {func(files map[string][]byte) {
			files["set/shard.00001.mds"] = files["set/shard.00001.mds"][:1000]
			delete(files, "set/index.json")
		}, "read s3://bucket/set/shard.00001.mds: the shard is cut off"},
		"a damaged index": {func(files map[string][]byte) {
			files["set/index.json"] = bytes.ReplaceAll(files["set/index.json"], []byte(`"version":2`),
				[]byte(`"version":9`))
		}, "read s3://bucket/set/index.json: the index has version 9"},
	} {
		t.Run(name, func(t *testing.T) {
			files, _ := shardsOf(t, 3, 20, "")
			c.change(files)
			if got, err := open(t, files); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d documents, %v; want %q", len(got), err, c.want)
			}
		})
	}
	files, want := shardsOf(t, 3, 20, "")
	for i := range 3 { // copies that are listed after the raw shards
		name := fmt.Sprintf("set/shard.%05d.mds", i)
		files[name+".zstd"] = []byte(zstandard(t, string(files[name])))
	}
	delete(files, "set/index.json")
	if got, err := open(t, files); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("with compressed copies: %d documents, want %d, %v", len(got), len(want), err)
	}
}

// Both files of a Megatron pair are read by ranges, each byte once. Any of their names selects both.
func TestMegatronPairs_InStore(t *testing.T) {
	var lengths []int32
	var ids []uint16
	var want []string
	for i := range 3000 {
		document := make([]uint16, 1+i%400)
		wide := make([]uint32, len(document))
		for k := range document {
			document[k] = uint16(i + k)
			wide[k] = uint32(document[k])
		}
		lengths, ids, want = append(lengths, int32(len(document))), append(ids, document...), append(want, ints(wide...))
	}
	index, bin := megatronIndex(lengths...), shorts(ids...)
	s3 := newBucket(t, map[string][]byte{"set/x.idx": []byte(index), "set/x.bin": []byte(bin), "set/y.jsonl": {}})
	tokens := corpus.Options{Tokens: true}
	for _, pattern := range []string{"s3://bucket/set/", "s3://bucket/set/x", "s3://bucket/set/x.idx",
		"s3://bucket/set/x.bin", "s3://bucket/set/x.*"} {
		s3.ResetRequests()
		got, err := contents(t, s3.open(t, tokens, pattern))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d documents, want %d, %v", pattern, len(got), len(want), err)
		}
		listings, heads := 0, 0
		for _, r := range s3.Requests() {
			if r.URL.Query().Has("list-type") {
				listings++
			} else if r.Header.Get("Range") == "bytes=0-8" && strings.HasSuffix(r.URL.Path, ".idx") {
				heads++
			}
		}
		if listings == 0 || listings > 2 || pattern != "s3://bucket/set/x" && listings > 1 || heads > 1 {
			t.Errorf("%s: %d listings, and %d requests for the first bytes of the index", pattern, listings, heads)
		}
		if n, _ := s3.Requested("/bucket/set/x.bin"); n != int64(len(bin)) {
			t.Errorf("%s: requested %d of %d bytes of ids", pattern, n, len(bin))
		}
		if n, _ := s3.Requested("/bucket/set/x.idx"); n > int64(len(index))+200_000 {
			t.Errorf("%s: requested %d of %d bytes of the index", pattern, n, len(index))
		}
	}
	s3.Put("/bucket/set/x.bin", []byte(bin[:len(bin)/2]))
	got, err := contents(t, s3.open(t, tokens, "s3://bucket/set/x"))
	if err == nil || !strings.Contains(err.Error(), "s3://bucket/set/x.idx") ||
		!strings.Contains(err.Error(), "cut off") || len(got) > len(want)*3/4 {
		t.Errorf("truncated ids: %d documents, %v", len(got), err)
	}
	alone := newBucket(t, map[string][]byte{"x.idx": []byte(index)})
	if _, err := corpus.Open(t.Context(), []string{"s3://bucket/x.idx"}, nil, corpus.Options{Tokens: true,
		Stores: alone.stores}); err == nil || !strings.Contains(err.Error(), "x.bin is not among the objects") {
		t.Errorf("without ids: %v", err)
	}
}

// archiveOf returns a web archive of n records, each in a gzip member or all without compression. Some records have no
// documents, and some members have several records.
func archiveOf(t *testing.T, n int, compressed bool) []byte {
	t.Helper()
	var b bytes.Buffer
	for i := range n {
		kind := "text/plain"
		if i%5 == 4 {
			kind = "image/png"
		}
		text := fmt.Sprintf("record %d %x", i, rand.New(rand.NewPCG(1, uint64(i))).Perm(50+i%200))
		r := fmt.Sprintf("WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Record-ID: <%d>\r\nContent-Type: %s\r\n"+
			"Content-Length: %d\r\n\r\n%s\r\n\r\n", i, kind, len(text), text)
		if i%7 == 3 {
			r += strings.Replace(r, "conversion", "metadata", 1)
		}
		if compressed {
			r = gzipped(t, r)
		}
		b.WriteString(r)
	}
	return b.Bytes()
}

// After a kill, an object of every format with positions is read from there on, by ranges, and yields the remaining
// entries as they were.
func TestPosition_RequestsOnlyRest(t *testing.T) {
	shards, _ := shardsOf(t, 1, 3000, "")
	var lengths []int32
	for i := range 3000 {
		lengths = append(lengths, int32(1+i%400))
	}
	damaged := archiveOf(t, 3000, true)
	copy(damaged[len(damaged)/3:], "damage")
	copy(damaged[len(damaged)/2:], "damage")
	files := map[string][]byte{"a.mds": shards["set/shard.00000.mds"], "b.warc": archiveOf(t, 3000, false),
		"c.warc.gz": archiveOf(t, 3000, true), "d.warc.gz": damaged, "e.idx": []byte(megatronIndex(lengths...)),
		"e.bin": []byte(shorts(make([]uint16, 3000*400)...)), "f.jsonl": objecttest.Lines("f", 3000, 300)}
	s3 := newBucket(t, files)
	for name, most := range map[string]int64{"a.mds": 0, "b.warc": 2, "c.warc.gz": 2, "d.warc.gz": 3000, "e.idx": 0,
		"f.jsonl": 0} {
		t.Run(name, func(t *testing.T) {
			open := func() *corpus.Input {
				return s3.open(t, corpus.Options{Tokens: name == "e.idx"}, "s3://bucket/"+name)[0]
			}
			all, positions, _, err := entries(t, open(), corpus.Position{})
			if err != nil || len(all) < 2500 {
				t.Fatalf("%d entries, %v", len(all), err)
			}
			for n := range len(all) - 1 {
				near := strings.Join(all[max(n-3, 0):min(n+4, len(all))], " ")
				if n%499 != 0 && !strings.Contains(near, "damaged") {
					continue
				}
				got, _, skipped, err := entries(t, open(), positions[n])
				if twice := int64(n+1) - skipped; err != nil || twice < 0 || twice > most ||
					!reflect.DeepEqual(got, all[skipped:]) {
					t.Fatalf("after entry %d, from %+v: %d entries from %d on, %v", n, positions[n], len(got), skipped, err)
				}
			}
			content := name
			if name == "e.idx" {
				content = "e.bin"
			}
			last := positions[len(all)*9/10]
			in := open()
			s3.ResetRequests()
			if _, _, _, err := entries(t, in, last); err != nil {
				t.Fatal(err)
			}
			n, requests := s3.Requested("/bucket/" + content)
			t.Logf("%s: %d of %d bytes in %d requests for the last tenth", name, n, len(files[content]), requests)
			if n > int64(len(files[content]))/10+200_000 {
				t.Errorf("requested %d of %d bytes for the last tenth", n, len(files[content]))
			}
		})
	}
}
