package corpus_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
)

// The fractions of an input increase to its end, and depend neither on read-ahead nor on the number of processors.
func TestFraction_DependsOnlyOnFiles(t *testing.T) {
	var lines, table strings.Builder
	table.WriteString("text\n")
	for i := range 20_000 {
		text := strings.Repeat(fmt.Sprint("word ", i), i*7%50)
		fmt.Fprintf(&lines, "{\"text\": %q, \"more\": %d}\n", text, i)
		fmt.Fprintln(&table, "x"+text)
	}
	rows, err := os.ReadFile(parquetFile(t, 2000))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		content  string
		low, mid float64 // minimum of the last document, maximum in the middle
	}{
		"a.jsonl":    {lines.String(), 1, 0.6},
		"a.jsonl.gz": {gzipped(t, lines.String()), 0.9, 1},
		"a.csv":      {table.String(), 0.9, 0.6},
		"a.parquet":  {string(rows), 1, 0.6},
	} {
		t.Run(name, func(t *testing.T) {
			path := folder(t, map[string]string{name: c.content}) + "/" + name
			read := func(o corpus.Options) (fractions []float64, texts []string) {
				inputs, err := corpus.Open(t.Context(), []string{path}, nil, o)
				if err != nil {
					t.Fatal(err)
				}
				for d, err := range inputs[0].Documents(t.Context()) {
					if skipped := (*record.SkipError)(nil); err != nil && !errors.As(err, &skipped) {
						t.Fatal(err)
					}
					fractions, texts = append(fractions, inputs[0].Fraction()), append(texts, string(d.Data))
				}
				return fractions, texts
			}
			one, texts := read(corpus.Options{})
			last := 0.0
			for i, f := range one {
				if f < last || f > 1 {
					t.Fatalf("document %d: %v after %v", i, f, last)
				}
				last = f
			}
			if last < c.low || one[len(one)/2] > c.mid {
				t.Errorf("the last of %d documents is at %v, half of them at %v", len(one), last, one[len(one)/2])
			}
			withProcessors(t, 8)
			other, otherTexts := read(corpus.Options{Interleaved: true})
			if !reflect.DeepEqual(one, other) || !reflect.DeepEqual(texts, otherTexts) {
				t.Error("another reading has other documents or fractions")
			}
		})
	}
}
