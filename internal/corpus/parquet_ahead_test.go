package corpus_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/parquet/file"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
)

// withProcessors sets GOMAXPROCS for a test.
func withProcessors(t *testing.T, n int) {
	t.Helper()
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

func TestParquet_OrderOfGroupsDecodedAhead(t *testing.T) {
	path := parquetFile(t, 30*300+7)
	for _, processors := range []int{1, 2, 8} {
		t.Run(fmt.Sprint(processors), func(t *testing.T) {
			withProcessors(t, processors)
			docs, skipped, err := read(t, []string{path}, nil, corpus.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var wantDocs, wantSkipped []string
			for i := range 30*300 + 7 {
				if i%10 == 9 {
					wantSkipped = append(wantSkipped, fmt.Sprintf("docs.parquet:%d bad record", i+1))
				} else {
					wantDocs = append(wantDocs, fmt.Sprintf("docs.parquet||row %d é", i))
				}
			}
			want(t, "documents", docs, wantDocs)
			want(t, "left out", skipped, wantSkipped)
		})
	}
}

// All rows before a damaged row group are yielded, none after it, and the error names the file and the row group.
func TestParquet_ErrorOfGroupDecodedAhead(t *testing.T) {
	withProcessors(t, 8)
	path := parquetFile(t, 10*300)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	chunk, err := p.RowGroup(4).MetaData().ColumnChunk(0)
	if err != nil {
		t.Fatal(err)
	}
	start := chunk.DataPageOffset()
	if d := chunk.DictionaryPageOffset(); d > 0 {
		start = min(start, d)
	}
	for i := range 8 {
		data[start+int64(i)] = 0xff
	}
	docs, skipped, err := readFile(t, t.TempDir(), "a.parquet", data, corpus.Options{})
	if rows := len(docs) + len(skipped); rows != 4*300 {
		t.Errorf("%d rows before the damaged row group, want %d", rows, 4*300)
	}
	if err == nil || !strings.Contains(err.Error(), "a.parquet: row group 4: not a readable Parquet file") {
		t.Errorf("error is %v, want one that names the file and row group 4", err)
	}
}

// The end of the iteration, however early, ends the decoders.
func TestParquet_StopsDecodersAtEnd(t *testing.T) {
	withProcessors(t, 8)
	path := parquetFile(t, 100*300)
	before := runtime.NumGoroutine()
	for stop := range 20 {
		inputs, err := corpus.Open(t.Context(), []string{path}, nil, corpus.Options{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range inputs[0].Documents(t.Context()) {
			if skipped := (*record.SkipError)(nil); err != nil && !errors.As(err, &skipped) {
				t.Fatal(err)
			}
			if n++; n > 100*stop {
				break
			}
		}
		for patience := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
			if time.Now().After(patience) {
				t.Fatalf("%d goroutines after %d documents, %d before", runtime.NumGoroutine(), n, before)
			}
		}
	}
}
