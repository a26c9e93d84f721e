package columnar

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"loaderd/internal/columnfile"
	"loaderd/internal/corpus/record"
)

// groupsFile returns a Parquet file of row groups with 1000 texts of a size.
func groupsFile(t *testing.T, groups, size int, dictionary bool) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "text", Type: arrow.BinaryTypes.String}}, nil)
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &out,
		parquet.NewWriterProperties(parquet.WithDictionaryDefault(dictionary)), pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for g := range groups {
		for range 1000 {
			b.Field(0).(*array.StringBuilder).Append(fmt.Sprintf("%-*d", size, g))
		}
		r := b.NewRecord()
		err = errors.Join(err, w.Write(r))
		r.Release()
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// offsetRecorder records the maximum offset of reads.
type offsetRecorder struct {
	*bytes.Reader
	mu  sync.Mutex
	max int64
}

func (o *offsetRecorder) ReadAt(p []byte, at int64) (int, error) {
	n, err := o.Reader.ReadAt(p, at)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.max = max(o.max, at+int64(n))
	return n, err
}

// Row groups in flight are bounded in number and by their uncompressed bytes. A larger group is read alone.
func TestParquet_BoundsRowGroupsInFlight(t *testing.T) {
	const groups = 40
	content := groupsFile(t, groups, 100, false)
	for name, c := range map[string]struct {
		aheadGroups int
		aheadBytes  int64
		most        int // row groups in flight
	}{
		"number":      {3, 1 << 30, 3},
		"bytes":       {30, 450_000, 4}, // a row group has 104,000 bytes
		"large group": {30, 50_000, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var reads offsetRecorder
			var ends []int64 // of the row groups
			p := Parquet{
				File: record.File{Path: "a.parquet"}, Columns: record.Columns{Text: "text", MaxDocument: 1 << 20},
				AheadGroups: c.aheadGroups, AheadBytes: c.aheadBytes, OnRows: func(int64, int64) {},
				Open: func() (*columnfile.ParquetFile, error) {
					f, err := columnfile.NewParquetFile(&reads, int64(len(content)), func() error { return nil })
					if err != nil {
						return nil, err
					}
					for _, g := range f.MetaData().RowGroups {
						ends = append(ends, g.Columns[0].MetaData.DataPageOffset+g.Columns[0].MetaData.TotalCompressedSize)
					}
					reads.max = 0
					return f, err
				},
			}
			reads.Reader = bytes.NewReader(content)
			n := 0
			if !p.Documents(t.Context(), func(d record.Document, err error) bool {
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.TrimSpace(string(d.Data)); got != fmt.Sprint(n/1000) {
					t.Fatalf("row %d has the text of row group %s", n, got)
				}
				reads.mu.Lock()
				defer reads.mu.Unlock()
				const oldDictionaryHeader = 100 // which is read too
				if last := min(n/1000+c.most-1, groups-1); reads.max > ends[last]+oldDictionaryHeader {
					t.Fatalf("at row %d, %d bytes are read, at most %d of %d row groups", n, reads.max, ends[last], c.most)
				}
				n++
				return true
			}) || n != groups*1000 {
				t.Fatalf("%d of %d documents", n, groups*1000)
			}
		})
	}
}

// A row group of which the footer declares too few bytes is not decompressed before it is the next one.
func TestParquet_PagesBeyondDeclaredSizeWait(t *testing.T) {
	content := groupsFile(t, 8, 100, false)
	p := Parquet{
		File: record.File{Path: "a.parquet"}, Columns: record.Columns{Text: "text", MaxDocument: 1 << 20},
		AheadGroups: 8, AheadBytes: 1 << 30, OnRows: func(int64, int64) {},
		Open: func() (*columnfile.ParquetFile, error) {
			file, err := columnfile.NewParquetFile(bytes.NewReader(content), int64(len(content)), func() error { return nil })
			if err != nil {
				return nil, err
			}
			for _, g := range file.MetaData().RowGroups {
				g.Columns[0].MetaData.TotalUncompressedSize = 10
			}
			return file, nil
		},
	}
	file, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	leaves, err := findLeaves(p.Columns, file.MetaData().Schema)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		g := p.newGroup(file, 3, leaves)
		go g.decode(t.Context(), p.Columns)
		synctest.Wait()
		if n := len(g.batches); n > 0 {
			t.Errorf("%d batches are decoded", n)
		}
		close(g.first)
		rows := 0
		for b := range g.batches {
			rows += len(b.rows)
		}
		if rows != 1000 || g.err != nil {
			t.Errorf("%d rows, want 1000: %v", rows, g.err)
		}
	})
	n := 0
	p.Documents(t.Context(), func(_ record.Document, err error) bool { n++; return err == nil })
	if n != 8000 {
		t.Errorf("%d documents, want 8000", n)
	}
}

// Documents that are decoded ahead are bounded, also if a dictionary makes them larger than their row group.
func TestParquet_BoundsDocumentsDecodedAhead(t *testing.T) {
	content := groupsFile(t, 1, 64<<10, true)
	p := Parquet{Columns: record.Columns{Text: "text", MaxDocument: 1 << 20}, AheadGroups: 8, AheadBytes: 1 << 30}
	file, err := columnfile.NewParquetFile(bytes.NewReader(content), int64(len(content)), func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	file.MetaData().RowGroups[0].NumRows = 1 << 20
	leaves, err := findLeaves(p.Columns, file.MetaData().Schema)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		g := p.newGroup(file, 0, leaves)
		go g.decode(t.Context(), p.Columns)
		synctest.Wait()
		if n := len(g.batches); n != 1 {
			t.Errorf("%d batches are decoded ahead, want 1", n)
		}
		rows := 0
		for b := range g.batches {
			rows += len(b.rows)
			g.ahead.Release(b.size)
		}
		if rows != 1000 || g.err != nil {
			t.Errorf("%d rows, want 1000: %v", rows, g.err)
		}
	})
}
