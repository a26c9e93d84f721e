package corpus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
	"loaderd/internal/objects"
	"loaderd/internal/objecttest"
)

// An object or a file that is read from any place yields the entries after it, with their line numbers. Formats that
// cannot start there start at the beginning, and Passed reports it.
func TestPosition_ReadContinuesAtLineNumber(t *testing.T) {
	var lines bytes.Buffer
	lines.WriteString("\xef\xbb\xbf")
	for i := range 400 {
		switch i % 7 {
		case 3:
			lines.WriteString("no json\n\n")
		case 5:
			fmt.Fprintf(&lines, "{\"text\": %q}\r\n", strings.Repeat("long ", 20+i))
		default:
			fmt.Fprintf(&lines, "{\"text\": \"row %d é\"}\n", i)
		}
	}
	table, err := os.ReadFile(parquetFile(t, 1000))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		data   []byte
		most   int64 // entries that are read twice, -1: all
		format corpus.Format
	}{
		{"/a.jsonl", lines.Bytes(), 0, corpus.Auto}, {"/b.jsonl", lines.Bytes(), 0, corpus.JSONL},
		{"/c.parquet", table, 300, corpus.Auto},
		{"/d.parquet", table, 300, corpus.Parquet}, {"/e.jsonl.gz", []byte(gzipped(t, lines.String())), -1, corpus.Auto},
	} {
		t.Run(c.name, func(t *testing.T) {
			web := objecttest.NewWeb(t)
			web.Put(c.name, c.data)
			o := corpus.Options{Format: c.format, Stores: objects.New(objects.Options{})}
			found, err := o.Stores.List(t.Context(), web.URL+c.name)
			if err != nil {
				t.Fatal(err)
			}
			listing, err := corpus.NewListing(found, o)
			if err != nil {
				t.Fatal(err)
			}
			local := filepath.Join(t.TempDir(), c.name)
			if err := os.WriteFile(local, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			read := func(from corpus.Position, file bool) (entries []string, places []corpus.Position, passed int64) {
				in, err := listing.Open(t.Context(), 0)
				if err != nil {
					t.Fatal(err)
				}
				if file {
					inputs, err := corpus.Open(t.Context(), []string{local}, nil, o)
					if err != nil {
						t.Fatal(err)
					}
					in = inputs[0]
				}
				in.StartAt(from)
				for d, err := range in.Documents(context.Background()) {
					skipped := (*record.SkipError)(nil)
					if err != nil && !errors.As(err, &skipped) {
						t.Fatal(err)
					}
					var problem error
					if skipped != nil {
						problem = skipped.Err
					}
					entries, places, passed = append(entries, fmt.Sprint(string(d.Data), problem)), append(places, in.Position()),
						in.SkippedEntries()
				}
				return entries, places, passed
			}
			all, places, _ := read(corpus.Position{}, false)
			if len(all) < 300 {
				t.Fatalf("%d entries", len(all))
			}
			for n := 0; n < len(all)-1; n += 13 {
				entries, _, passed := read(places[n], n%2 == 0)
				if twice := int64(n+1) - passed; twice < 0 || c.most >= 0 && twice > c.most || c.most < 0 && passed != 0 {
					t.Fatalf("behind entry %d it begins at %d", n, passed)
				}
				if !reflect.DeepEqual(entries, all[passed:]) {
					t.Fatalf("behind entry %d, from %+v: %d entries, want the last %d", n, places[n], len(entries),
						int64(len(all))-passed)
				}
			}
		})
	}
}
