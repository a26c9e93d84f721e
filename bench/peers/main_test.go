package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/packonline"
)

func lengthsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lengths")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every token is in the rows once with each method, and no row is emitted before its documents.
func TestRun_RowsHaveEveryTokenOnce(t *testing.T) {
	path := lengthsFile(t, "3\n8\n5\n1\n20\n8\n2\n")
	for _, method := range []string{"bfd", "concat"} {
		t.Run(method, func(t *testing.T) {
			var out bytes.Buffer
			if err := run([]string{"-method", method, "-length", "8", "-pool", "3", "-max-age", "4", "-rows", path},
				&out); err != nil {
				t.Fatal(err)
			}
			ends := []int64{3, 11, 16, 17, 37, 45, 47} // the last token of each document
			seen := map[int32]bool{}
			for out.Len() > 0 {
				var row struct {
					Arrived int64
					Tokens  [8]int32
				}
				if err := binary.Read(&out, binary.NativeEndian, &row); err != nil {
					t.Fatal(err)
				}
				for _, token := range row.Tokens {
					switch {
					case token == 0:
					case seen[token]:
						t.Errorf("token %d was emitted twice", token)
					case int64(token) > ends[row.Arrived-1]:
						t.Errorf("token %d was emitted when %d documents had arrived", token, row.Arrived)
					default:
						seen[token] = true
					}
				}
			}
			if len(seen) != 47 {
				t.Errorf("%d of 47 tokens were emitted", len(seen))
			}
		})
	}
}

func TestRun_ReportsFigures(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"-rounds", "1", lengthsFile(t, strings.Repeat("700\n", 5000))}, &out); err != nil {
		t.Fatal(err)
	}
	var r result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Documents != 5000 || r.Alone <= 0 || r.Moved <= 0 || r.Added <= 0 || r.Process <= r.Added {
		t.Errorf("figures %+v", r)
	}
}

func TestRun_PrintsLengthsAndMethods(t *testing.T) {
	var a, b, methods bytes.Buffer
	for _, c := range []struct {
		args []string
		out  io.Writer
	}{{[]string{"-draw", "3"}, &a}, {[]string{"-draw", "3", "-seed", "2"}, &b}, {[]string{"-methods"}, &methods}} {
		if err := run(c.args, c.out); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Count(a.String(), "\n") != 3 || a.String() == b.String() {
		t.Errorf("lengths %q and, of another seed, %q", &a, &b)
	}
	if got, want := strings.Fields(methods.String()), packonline.Methods(); strings.Join(got, " ") != strings.Join(want,
		" ") {
		t.Errorf("methods %v, want %v", got, want)
	}
}

func TestRun_RefusesInvalidInput(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"3\nfour\n", `lengths:2: "four" is not a document length`},
		{"3\n0\n", `lengths:2: "0" is not a document length`},
		{"2147483648\n", `lengths:1: "2147483648" is not a document length`},
		{"", "no document lengths"},
	} {
		if err := run([]string{lengthsFile(t, c.text)}, io.Discard); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("lengths %q: error %v, want one that contains %s", c.text, err, c.says)
		}
	}
	if err := run([]string{"-method", "none", lengthsFile(t, "3\n")}, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "method: none") {
		t.Errorf("unknown method: error %v", err)
	}
}
