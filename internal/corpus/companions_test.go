package corpus_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/internal/corpus"
	"loaderd/internal/tokenfiles"
)

// olmo returns options for ids of two bytes.
func olmo(t testing.TB) corpus.Options {
	t.Helper()
	typ, err := tokenfiles.TypeOf("uint16")
	if err != nil {
		t.Fatal(err)
	}
	return corpus.Options{Tokens: true, TokenType: typ}
}

// annotatedLines returns documents and errors of an input as text: ids, loss runs, error.
func annotatedLines(t testing.TB, dir string, o corpus.Options) (all []string) {
	t.Helper()
	inputs, err := corpus.Open(t.Context(), []string{dir}, nil, o)
	if err != nil {
		return []string{err.Error()}
	}
	for _, in := range inputs {
		for d, err := range in.Documents(t.Context()) {
			if err != nil {
				all = append(all, err.Error())
				continue
			}
			var ids []uint32
			for i := 0; i < len(d.Data); i += 4 {
				ids = append(ids, little.Uint32([]byte(d.Data[i:])))
			}
			all = append(all, fmt.Sprint(ids, d.Loss))
		}
	}
	return all
}

// OLMo-core's fine-tuning caches and dolma's files are read as documents, with the label mask.
func TestCompanions_DocumentsAndLoss(t *testing.T) {
	const ids, mask, bounds = "token_ids_part_0000.npy", "labels_mask_part_0000.npy", "token_ids_part_0000.csv.gz"
	tokens, flags := shorts(1, 9, 2, 9, 3, 4, 9), "\x00\x00\x01\x01\x00\x01\x01"
	tests := []struct {
		name  string
		files map[string]string
		cut   bool
		want  []string
	}{
		{"mask and boundaries", map[string]string{ids: tokens, mask: flags, bounds: gzipped(t, "0,4\n4,7\n")}, false,
			[]string{"[1 9 2 9] [0 2 2]", "[3 4 9] [0 1 2]"}},
		{"boundaries win over the end token", map[string]string{ids: tokens,
			bounds: gzipped(t, "0,4,id,source,3\n4,7,id,source,4\n")}, true,
			[]string{"[1 9 2 9] []", "[3 4 9] []"}},
		{"mask and end token", map[string]string{ids: tokens, mask: flags}, true,
			[]string{"[1 9] [0 2]", "[2 9] [2]", "[3 4 9] [0 1 2]"}},
		{"OLMo's first names", map[string]string{"input_ids.npy": tokens, "label_mask.npy": flags}, true,
			[]string{"[1 9] [0 2]", "[2 9] [2]", "[3 4 9] [0 1 2]"}},
		{"an empty document", map[string]string{ids: tokens, mask: flags, bounds: gzipped(t, "0,0\n0,7\n")}, false,
			[]string{"[] [0]", "[1 9 2 9 3 4 9] [0 2 2 1 2]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := olmo(t)
			if tt.cut {
				o.Boundaries.End = &end
			}
			want(t, tt.name, annotatedLines(t, folder(t, tt.files), o), tt.want)
		})
	}
}

// Inconsistent companion files are an error, so that no document gets the mask of another one.
func TestCompanions_InconsistentFilesAreErrors(t *testing.T) {
	const ids, mask, bounds = "token_ids_part_0000.npy", "labels_mask_part_0000.npy", "token_ids_part_0000.csv.gz"
	tokens, flags := shorts(1, 9, 2, 9), "\x00\x01\x01\x01"
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"mask is short", map[string]string{ids: tokens, mask: flags[:3]}, "fewer values"},
		{"mask is long", map[string]string{ids: tokens, mask: flags + "\x00"}, "more values"},
		{"mask is of another type", map[string]string{ids: tokens, mask: "\x00\x02\x00\x00"}, "want 0 or 1"},
		{"boundaries end early", map[string]string{ids: tokens, bounds: gzipped(t, "0,2\n")}, "more ids than the 2"},
		{"boundaries end late", map[string]string{ids: tokens, bounds: gzipped(t, "0,2\n2,5\n")}, "ends behind 4 ids"},
		{"boundaries with a gap", map[string]string{ids: tokens, bounds: gzipped(t, "0,1\n2,4\n")}, "line 2"},
		{"boundaries without numbers", map[string]string{ids: tokens, bounds: gzipped(t, "0,1\n1,x\n")}, "line 2"},
		{"mask without ids", map[string]string{mask: flags}, "label mask"},
		{"mask of ids with a header", map[string]string{ids: npyFile("<u2", "4,", tokens), mask: flags}, "without a header"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := olmo(t)
			o.Boundaries.End = &end
			all := annotatedLines(t, folder(t, tt.files), o)
			if last := all[len(all)-1]; !strings.Contains(last, tt.want) {
				t.Errorf("%q, want an error with %q at the end", all, tt.want)
			}
		})
	}
	t.Run("mask alone", func(t *testing.T) {
		dir := folder(t, map[string]string{ids: tokens, mask: flags})
		all := annotatedLines(t, filepath.Join(dir, mask), olmo(t))
		if len(all) != 1 || !strings.Contains(all[0], ids) {
			t.Errorf("%q, want an error that names %s", all, ids)
		}
	})
}

func FuzzCompanions(f *testing.F) {
	f.Add([]byte(shorts(1, 9, 2)), []byte("\x00\x01\x01"), []byte("0,2\n2,3\n"))
	f.Add([]byte(shorts(1)), []byte(""), []byte("0,18446744073709551615\n"))
	f.Add([]byte(shorts(1)), []byte("\x01"), []byte("0,9223372036854775807\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, ids, mask, bounds []byte) {
		for name, data := range map[string]string{"token_ids.npy": string(ids), "labels_mask.npy": string(mask),
			"token_ids.csv.gz": gzipped(t, string(bounds))} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		inputs, err := corpus.Open(t.Context(), []string{dir}, nil, olmo(t))
		if err != nil {
			return
		}
		for _, in := range inputs {
			for d, err := range in.Documents(t.Context()) {
				sum := int32(0)
				for _, n := range d.Loss {
					sum += n
				}
				if err == nil && d.Loss != nil && int(sum) != len(d.Data)/4 {
					t.Fatalf("%d tokens, %d in the mask", len(d.Data)/4, sum)
				}
			}
		}
	})
}
