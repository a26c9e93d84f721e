package vocab

import (
	"bytes"
	"compress/flate"
	"flag"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	loader "github.com/pkoukk/tiktoken-go-loader"

	"loaderd/tokenizer/internal/merge"
)

var update = flag.Bool("update", false, "write the files of merges from tiktoken's rank files")

var names = []string{"r50k_base", "cl100k_base", "o200k_base"}

// fromRankFile returns the content of tiktoken's rank file.
func fromRankFile(t *testing.T, name string) (*Vocabulary, []string) {
	t.Helper()
	ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe(name + ".tiktoken")
	if err != nil {
		t.Fatal(err)
	}
	tokens := make([]string, len(ranks))
	rankOf := make(map[string]uint32, len(ranks))
	for token, rank := range ranks {
		tokens[rank], rankOf[token] = token, uint32(rank)
	}
	v := &Vocabulary{}
	for rank := range v.Bytes {
		if len(tokens[rank]) != 1 {
			t.Fatalf("%s: rank %d is no byte: %q", name, rank, tokens[rank])
		}
		v.Bytes[rank] = tokens[rank][0]
	}
	for i, x := range merge.FromRanks(tokens, rankOf) {
		if x.Made != uint32(256+i) {
			t.Fatalf("%s: no merge makes %q", name, tokens[256+i])
		}
		v.Merges = append(v.Merges, [2]uint32{x.Left, x.Right})
	}
	return v, tokens
}

// pack writes a vocabulary in the format of Read.
func (v *Vocabulary) pack(out io.Writer) error {
	n := len(v.Merges)
	data := append(v.Bytes[:], make([]byte, planes*n)...)
	for i, parts := range v.Merges {
		for k := range planes {
			data[256+k*n+i] = byte(parts[k/3] >> (k % 3 * 8))
		}
	}
	w, err := flate.NewWriter(out, flate.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.Close()
}

// All tokens have the ranks of tiktoken's files, and the merges are equivalent to the ranks.
func TestRead_RanksEqualTiktoken(t *testing.T) {
	for _, name := range names {
		want, tokens := fromRankFile(t, name)
		if *update {
			var b bytes.Buffer
			if err := want.pack(&b); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name+".merges", b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d bytes; run the test once more without -update", name, b.Len())
			continue
		}
		have, err := Read(name)
		if err != nil {
			t.Fatal(err)
		}
		if have.Bytes != want.Bytes || !slices.Equal(have.Merges, want.Merges) {
			t.Errorf("%s: the file has other merges than tiktoken's ranks: go test ./tokenizer/internal/vocab -update writes it",
				name)
		}
		if diff := cmp.Diff(tokens, have.Texts(strings.Clone)); diff != "" {
			t.Errorf("%s: the tokens are others: %.1000s", name, diff)
		}
	}
	if v, err := Read("p50k_base"); err == nil {
		t.Errorf("p50k_base has %d merges, although nobody asks for it", len(v.Merges))
	}
}

func TestUnpack_RefusesInvalidData(t *testing.T) {
	for name, data := range map[string][]byte{
		"nothing":               nil,
		"a cut merge":           make([]byte, 256+planes+1),
		"a merge of what comes": slices.Concat(make([]byte, 256), []byte{0, 1, 0}, make([]byte, 3)), // left is rank 256
	} {
		if v, err := unpack(data); err == nil {
			t.Errorf("%s: %d merges, want an error", name, len(v.Merges))
		}
	}
}
