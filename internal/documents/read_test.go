package documents

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"loaderd/internal/config"
	"loaderd/packonline/similarity"
)

func bytesAsTokens(text string) (ids []int32) {
	for _, c := range []byte(text) {
		ids = append(ids, int32(c))
	}
	return ids
}

// FuzzReadDocuments reads arbitrary input: it is refused with its line, or results in documents that can be compared
// and packed.
func FuzzReadDocuments(f *testing.F) {
	for _, s := range []string{
		"", "\n\n", `{"text":"a"}`, `{"ids":[1,2],"path":"a/b","embedding":[1,-2.5]}`, `{"ids":[]}`, `{"ids":null}`,
		`{"ids":[null]}`, `{"ids":[-1]}`,
		`{"ids":[2147483648]}`, `{"ids":[1.5]}`, `{"text":"a","ids":[1]}`, `{"text":7}`, `[]`, `null`,
		`{"text":"a"}{"text":"b"}`, `{"text":"a","embedding":[]}`,
		`{"text":"a","embedding":[1e60]}`, `{"text":"a","embedding":[null]}`,
		"{\"text\":\"a\",\"embedding\":[1]}\n{\"text\":\"b\",\"embedding\":[1,2]}", "\xff\x00", `{"text":"\ud800"}`,
		`{"text":"a","path":"/../..//"}`, `{"text":"a","embedding":[0,0]}`, `{"text":"a","embedding":[1e-45,3e38]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		set, err := read(bytes.NewReader(in), "fuzz", nil, bytesAsTokens)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "read documents: fuzz:") {
				t.Fatalf("%q: %v", in, err)
			}
			if strings.Contains(err.Error(), "struct field") || strings.Contains(err.Error(), "Go ") {
				t.Fatalf("%q: %v names what no user knows", in, err)
			}
			return
		}
		if lines := bytes.Count(in, []byte("\n")) + 1; len(set.documents) > lines || len(set.vectors) != len(set.documents) {
			t.Fatalf("%q is read as %d documents with %d embeddings", in, len(set.documents), len(set.vectors))
		}
		for i, d := range set.documents {
			for _, id := range d.IDs {
				if id < 0 {
					t.Fatalf("%q has token %d", in, id)
				}
			}
			if v := set.vectors[i]; len(d.IDs) == 0 || v != nil && len(v) != set.dimension {
				t.Fatalf("%q is read as %d tokens with an embedding of %d", in, len(d.IDs), len(v))
			}
		}
		for _, retriever := range similarity.Retrievers {
			c := config.Default().Plan.Packing
			c.Method, c.Splice.Retriever = "splice", retriever
			c.Splice.Dimension = max(set.dimension, 1)
			hints, err := set.Hints(c.SimilarityConfig())
			if err != nil {
				t.Fatalf("%q: %v", in, err)
			}
			x := similarity.New(*c.SimilarityConfig())
			for i, h := range hints {
				x.Add(int32(i), similarity.Entry{Seq: uint64(i), Length: 1, Hint: h})
			}
			for i := range hints {
				for _, found := range x.Top(int32(i), 3, math.MaxInt32, nil) {
					if found.Slot == int32(i) || found.Score <= 0 {
						t.Fatalf("%q: document %d has %v", in, i, found)
					}
				}
			}
		}
	})
}
