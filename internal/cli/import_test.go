package cli

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/cli/command"
	"loaderd/internal/goldentest"
	"loaderd/internal/inspect"
	"loaderd/stream"
)

// pairOfIDs returns the ids of a document as they are published.
func pairOfIDs(i int) string {
	return string(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(100+i)), 99))
}

// npyOfPairs returns a NumPy array of n documents of two ids each, the second of which ends the document.
func npyOfPairs(n int) string {
	header := fmt.Sprintf("{'descr': '<u4', 'fortran_order': False, 'shape': (%d,), }", 2*n)
	var b strings.Builder
	b.WriteString("\x93NUMPY\x01\x00" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(header)))) + header)
	for i := range n {
		b.WriteString(pairOfIDs(i))
	}
	return b.String()
}

func imports(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), append([]string{"import"}, args...), strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// The output of --dry-run, without any server.
func TestDryRun_Output(t *testing.T) {
	texts := corpusFolder(t, map[string]string{
		"a.jsonl": `{"text":"one","lang":"en","n":1}` + "\n" + `{"n":2}` + "\n" + `{"text":""}` + "\n" +
			`{"text":"three\nlines","tags":[]}`, "b.txt": "plain", "c.bin": "\x00",
	})
	dir := corpusFolder(t, map[string]string{
		"ids.npy": npyOfPairs(40), "html.warc": "WARC/1.0\r\nWARC-Type: resource\r\nContent-Type: " +
			"text/html\r\nContent-Length: 3\r\n\r\n<p>\r\n\r\n",
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{"texts", []string{texts}, command.ExitFailed, "--skip-invalid"},
		{"ids", []string{"--tokenizer", "gpt2", "--end-token", "99", at("ids.npy")}, command.ExitOK, ""},
		{"ids-without-tokenizer", []string{"--end-token", "99", at("ids.npy")}, command.ExitFailed,
			"publish it with --tokenizer"},
		{"ids-not-cut", []string{at("ids.npy")}, command.ExitFailed, "cannot publish the input: fix the reported problems"},
		{"html", []string{at("html.warc")}, command.ExitFailed, "no documents in"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, stderr := imports(t, append([]string{"--dry-run"}, c.args...)...)
			if code != c.code || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit %d: %s", code, stderr)
			}
			goldentest.Compare(t, "import/"+c.name+".txt", func(w io.Writer) error {
				_, err := io.WriteString(w, strings.NewReplacer(dir, "DIR", texts, "TEXTS").Replace(out))
				return err
			})
		})
	}
	few := corpusFolder(t, map[string]string{"a.txt": strings.Repeat("word ", 100) + "\xff"})
	if code, out, stderr := imports(t, "--dry-run", few); code != command.ExitOK ||
		!strings.Contains(out, "replaced     1 byte") {
		t.Errorf("bytes that are not UTF-8: exit %d, %s%s", code, out, stderr)
	}
	code, out, stderr := imports(t, "--dry-run", "--json", texts)
	var r inspect.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != command.ExitFailed || r.Documents != 3 ||
		r.LeftOut["bad record"].Count != 1 || !r.Complete {
		t.Errorf("exit %d, %+v, %v: %s", code, r, err, stderr)
	}
}

// A dry run exits with the status of the import.
func TestDryRun_ExitStatusMatchesImport(t *testing.T) {
	dir := corpusFolder(t, map[string]string{
		"good.jsonl": jsonLines(2), "bad.jsonl": jsonLines(1) + "nonsense", "only_bad.jsonl": `{"n":1}`,
		"large.txt": strings.Repeat("x", stream.MaxDocumentLimit-10), "empty.jsonl": "",
		"cut.jsonl.gz": "\x1f\x8b\x08", "binary.dat": "\x00", "ids.npy": npyOfPairs(4),
		"page.html.warc": "WARC/1.0\r\nWARC-Type: resource\r\nContent-Type: text/html\r\n" +
			"Content-Length: 3\r\n\r\n<p>\r\n\r\n",
	})
	s := documentServer(t)
	for i, c := range []struct {
		args []string
		code int
	}{
		{[]string{"good.jsonl"}, command.ExitOK}, {[]string{"bad.jsonl"}, command.ExitFailed},
		{[]string{"--skip-invalid", "bad.jsonl"}, command.ExitOK}, {[]string{"--skip-invalid", "only_bad.jsonl"},
			command.ExitOK},
		{[]string{"large.txt"}, command.ExitFailed}, {[]string{"--skip-too-large", "large.txt"}, command.ExitOK},
		{[]string{"empty.jsonl"}, command.ExitFailed}, {[]string{"cut.jsonl.gz"}, command.ExitFailed},
		{[]string{"good.jsonl", "cut.jsonl.gz"}, command.ExitFailed}, {[]string{"binary.dat"}, command.ExitFailed},
		{[]string{"ids.npy"}, command.ExitFailed},
		{[]string{"--tokenizer", "gpt2", "--end-token", "99", "ids.npy"}, command.ExitOK},
		{[]string{"page.html.warc"}, command.ExitFailed}, {[]string{"absent"}, command.ExitFailed},
		{[]string{"--id-column", "none", "good.jsonl"}, command.ExitFailed}, {[]string{"--text-column", "none", "good.jsonl"},
			command.ExitFailed}, {[]string{"--split", "", "--format", "x", "good.jsonl"}, command.ExitUsage},
	} {
		args := slices.Clone(c.args)
		for i, arg := range args {
			if _, err := os.Stat(filepath.Join(dir, arg)); err == nil && arg != "" {
				args[i] = filepath.Join(dir, arg)
			}
		}
		published, _, stderr := publishes(t, s, "", append([]string{"--source", fmt.Sprint("s", i)}, args...)...)
		dry, _, said := imports(t, append([]string{"--dry-run"}, args...)...)
		if published != c.code || dry != c.code {
			t.Errorf("%q: published with %d, dry run with %d, want %d\n%s%s", c.args, published, dry, c.code, stderr, said)
		}
	}
}

// Token ids outside the tokenizer's vocabulary are rejected.
func TestImport_RefusesTokenIDsOutsideVocabulary(t *testing.T) {
	s := documentServer(t)
	path := filepath.Join(corpusFolder(t, map[string]string{"a.jsonl": `{"ids":[1,50256]}` + "\n" + `{"ids":[50257]}`}),
		"a.jsonl")
	code, sum, stderr := publishes(t, s, "", "--tokenizer", "gpt2", path)
	if code != command.ExitFailed || sum.Documents != 1 ||
		!strings.Contains(stderr, "token 0 has the id 50257, the tokenizer's vocabulary has 50257") {
		t.Errorf("exit %d, %+v: %s", code, sum, stderr)
	}
	code, sum, stderr = publishes(t, s, "", "--tokenizer", "gpt2", "--source", "other", "--skip-invalid", path)
	if code != command.ExitOK || sum.Documents != 1 || sum.Skipped["bad record"] != 1 {
		t.Errorf("skipped: exit %d, %+v: %s", code, sum, stderr)
	}
}

func TestImport_RefusesInvalidFlags(t *testing.T) {
	path := filepath.Join(corpusFolder(t, map[string]string{"a.npy": npyOfPairs(1)}), "a.npy")
	missing := filepath.Join(t.TempDir(), "absent.json")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--token-type", "float32"}, command.ExitUsage, `--token-type: "float32" is no type of token ids`},
		{[]string{"--end-token", "-1"}, command.ExitUsage, `--end-token "-1"`},
		{[]string{"--begin-token", "x"}, command.ExitUsage, `--begin-token "x"`},
		{[]string{"--tokenizer", ""}, command.ExitUsage, "--tokenizer is empty"},
		{[]string{"--tokenizer", "gpt2", "--tokenizer-fingerprint", "sha256:" + strings.Repeat("0a", 32)}, command.ExitUsage,
			"not both"},
		{[]string{"--tokenizer", missing}, command.ExitFailed, missing},
		{[]string{"--text-column", "a", "--text-column", "b"}, command.ExitUsage, `the flag is set twice, first to "a"`},
		{[]string{"--id-column", "text"}, command.ExitUsage, `column "text" is set twice`},
		{[]string{"--meta", "a,b,a=c"}, command.ExitUsage, `--meta names "a" twice`},
		{[]string{"--split", "test", "--end-token", "99"}, command.ExitFailed, "has no splits"},
		{[]string{"--format", "npz"}, command.ExitUsage, "want one of auto, text"},
	} {
		if code, _, stderr := imports(t, append(append([]string{"--dry-run"}, c.args...), path)...); code != c.code ||
			!strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit %d: %s, want %q", c.args, code, stderr, c.want)
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// Metadata of a text in parts is stored in its JSON; metadata of plain text and token documents is stored in headers.
// The same documents with other metadata are different documents.
func TestImport_StoresMetadataOfParts(t *testing.T) {
	s := documentServer(t)
	path := filepath.Join(corpusFolder(t, map[string]string{
		"a.jsonl": `{"parts":[{"text":"x","loss":true}],"lang":"de"}`}), "a.jsonl")
	for _, meta := range []string{"lang", "language=lang"} {
		if code, sum, stderr := publishes(t, s, "", "--meta", meta, path); code != command.ExitOK || sum.Documents != 1 {
			t.Errorf("exit %d, %+v: %s", code, sum, stderr)
		}
	}
	want := []string{`docs.files a.jsonl  {"meta":{"lang":"de"},"parts":[{"text":"x","loss":true}]}`,
		`docs.files a.jsonl  {"meta":{"language":"de"},"parts":[{"text":"x","loss":true}]}`}
	if got := streamed(t, s); !slices.Equal(got, want) {
		t.Errorf("stream holds %q, want %q", got, want)
	}
}

func TestPublish_WarnsIfNoDocumentHasValuesOfMeta(t *testing.T) {
	s := documentServer(t)
	path := filepath.Join(corpusFolder(t, map[string]string{"a.jsonl": `{"text":"x","meta":{"lang":"de"}}`}), "a.jsonl")
	const warning = "warning: no document has a field or column of --meta: "
	for _, tt := range []struct{ meta, want string }{
		{"language,year=published", warning + `"language", "published"`},
		{"lang=meta.lang,year", ""},
	} {
		code, sum, stderr := publishes(t, s, "", "--meta", tt.meta, path)
		if code != command.ExitOK || sum.Documents != 1 {
			t.Errorf("--meta %s: exit %d, %+v: %s", tt.meta, code, sum, stderr)
		}
		if tt.want == "" && strings.Contains(stderr, warning) || !strings.Contains(stderr, tt.want) {
			t.Errorf("--meta %s: printed %q, want %q", tt.meta, stderr, tt.want)
		}
	}
}
