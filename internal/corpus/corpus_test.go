package corpus_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"runtime"
	"strconv"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
)

// folder writes files and returns their folder.
func folder(tb testing.TB, files map[string]string) string {
	tb.Helper()
	dir := tb.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

func gzipped(tb testing.TB, s string) string {
	tb.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, s); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

func zstandard(tb testing.TB, s string) string {
	tb.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return string(w.EncodeAll([]byte(s), nil))
}

// read returns "path|id|data" of every document, "path:line reason" of every skip, and the error that ended the
// iteration.
func read(tb testing.TB, paths []string, stdin io.Reader, o corpus.Options) (docs, skipped []string, err error) {
	tb.Helper()
	inputs, err := corpus.Open(tb.Context(), paths, stdin, o)
	if err != nil {
		return nil, nil, err
	}
	for _, in := range inputs {
		for d, e := range in.Documents(tb.Context()) {
			var skip *record.SkipError
			switch {
			case errors.As(e, &skip):
				skipped = append(skipped, fmt.Sprintf("%s:%d %s", skip.Path, skip.Line, skip.Reason))
			case e != nil:
				err = e
			default:
				docs = append(docs, d.Path+"|"+d.ID+"|"+string(d.Data))
			}
		}
	}
	return docs, skipped, err
}

func want(tb testing.TB, what string, got, want []string) {
	tb.Helper()
	if !slices.Equal(got, want) {
		tb.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestFolder_ReadsSupportedFiles(t *testing.T) {
	dir := folder(t, map[string]string{
		"b.txt": "text b", "a/z.go": "package z", "a/y.md": "# y", "empty.txt": "",
		"image.png": "\x89PNG\r\n\x00\x00", ".git/config": "hidden", ".hidden": "hidden",
		"docs.jsonl":        `{"text":"one"}` + "\n" + `{"text":"two"}`,
		"a/more.ndjson.gz":  gzipped(t, `{"text":"three"}`+"\n\n"+`{"text":"four"}`+"\n"),
		"a/late.jsonl.zst":  zstandard(t, `{"text":"five"}`),
		"notes.txt.gz":      gzipped(t, "compressed text"),
		"unreadable/no.txt": "no",
	})
	if err := os.Symlink("b.txt", filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	docs, skipped, err := read(t, []string{dir}, nil, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "documents", docs, []string{
		"a/y.md||# y", "a/z.go||package z", "b.txt||text b", "empty.txt||", "notes.txt.gz||compressed text",
		"unreadable/no.txt||no",
		"a/late.jsonl.zst||five", "a/more.ndjson.gz||three", "a/more.ndjson.gz||four", "docs.jsonl||one", "docs.jsonl||two",
	})
	want(t, "left out", skipped, []string{".git:0 hidden", ".hidden:0 hidden", "image.png:0 binary", "link.txt:0 special"})
}

// With Late, the files of a folder yield the same documents and the same skips.
func TestFolder_DeferredChecksGiveSameResult(t *testing.T) {
	dir := folder(t, map[string]string{
		"b.txt": "text b", "a/z.go": "package z", "empty.txt": "", "image.png": "\x89PNG\r\n\x00\x00", ".hidden": "hidden",
		"long.bin":     strings.Repeat("x", 7999) + "\x00" + strings.Repeat("x", 1<<20),
		"notes.txt.gz": gzipped(t, "compressed text"),
		"large.txt.gz": gzipped(t, strings.Repeat("x", 1<<20)),
	})
	o := corpus.Options{Format: corpus.Text, MaxDocument: 1 << 10}
	early, leftEarly, err := read(t, []string{dir}, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	o.DeferChecks = true
	late, leftLate, err := read(t, []string{dir}, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "documents", late, early)
	slices.Sort(leftEarly)
	slices.Sort(leftLate)
	want(t, "left out", leftLate, leftEarly)
	want(t, "left out early", leftEarly, []string{".hidden:0 hidden", "image.png:0 binary", "large.txt.gz:0 too large",
		"long.bin:0 binary"})
}

// A file that is removed before it is read is skipped.
func TestFolder_SkipsFileRemovedBeforeRead(t *testing.T) {
	dir := folder(t, map[string]string{"a.txt": "a", "b.txt": "b"})
	inputs, err := corpus.Open(t.Context(), []string{dir}, nil, corpus.Options{Format: corpus.Text, DeferChecks: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "a.txt")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for d, err := range inputs[0].Documents(t.Context()) {
		if skip := (*record.SkipError)(nil); errors.As(err, &skip) {
			got = append(got, skip.Path+" "+string(skip.Reason))
			continue
		}
		got = append(got, d.Path)
	}
	want(t, "what is read", got, []string{"a.txt unreadable", "b.txt"})
}

func TestFingerprint_ChangesWithContentAndOptions(t *testing.T) {
	dir := folder(t, map[string]string{"a.txt": "a", "b.jsonl": `{"text":"b"}`})
	prints := func(o corpus.Options) []string {
		inputs, err := corpus.Open(t.Context(), []string{dir}, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, in := range inputs {
			all = append(all, in.Name+in.Fingerprint)
		}
		return all
	}
	first := prints(corpus.Options{})
	want(t, "again", prints(corpus.Options{}), first)
	if slices.Equal(prints(corpus.Options{TextField: "body"}), first) {
		t.Error("another text field has the same fingerprint")
	}
	if err := os.WriteFile(filepath.Join(dir, "b.jsonl"), []byte(`{"text":"longer"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	second := prints(corpus.Options{})
	if second[0] != first[0] || second[1] == first[1] {
		t.Errorf("after a change of b.jsonl: %q, before %q", second, first)
	}
}

func TestOpen_DeduplicatesInputs(t *testing.T) {
	dir := folder(t, map[string]string{"a.jsonl": `{"text":"a"}`})
	docs, _, err := read(t, []string{dir, filepath.Join(dir, "a.jsonl"), dir}, nil, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "documents", docs, []string{"a.jsonl||a"})
}

func TestJSONLines_DocumentsAndSkips(t *testing.T) {
	content := "\xef\xbb\xbf" + strings.Join([]string{
		`{"body":"one","n":1,"key":"k1"}`,
		``,
		`{"body":2,"key":"k2"}`,
		`not json`,
		`["list"]`,
		`{"key":"k6"}`,
		`{"body":"bad id","key":{}}`,
		"{\"body\":\"\xff\",\"key\":1}",
		`{"body":"` + strings.Repeat("x", 200) + `","key":9}`,
		`{"body":"` + strings.Repeat("x", 80_000) + `","key":10}`,
		`{"body":"tab\tand \u00e9","key":11}`,
	}, "\n")
	path := filepath.Join(folder(t, map[string]string{"d.jsonl": content}), "d.jsonl")
	docs, skipped, err := read(t, []string{path}, nil, corpus.Options{TextField: "body", IDField: "key", MaxDocument: 100})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "documents", docs, []string{"d.jsonl|k1|one", "d.jsonl|11|tab\tand é"})
	want(t, "left out", skipped, []string{
		"d.jsonl:3 bad record", "d.jsonl:4 bad record", "d.jsonl:5 bad record", "d.jsonl:6 bad record",
		"d.jsonl:7 bad record",
		"d.jsonl:8 bad record", "d.jsonl:9 too large", "d.jsonl:10 too large",
	})
}

func TestJSONLines_Tokens(t *testing.T) {
	stdin := strings.NewReader(`{"id":"a","ids":[1,50256,0]}` + "\n" + `{"ids":[-1]}` + "\n" + `{"ids":[1,null]}` + "\n" +
		`{"ids":"text"}`)
	inputs, err := corpus.Open(t.Context(), []string{"-"}, stdin, corpus.Options{Tokens: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []uint32
	bad := 0
	for d, err := range inputs[0].Documents(t.Context()) {
		if err != nil {
			bad++
			continue
		}
		for b := d.Data; len(b) > 0; b = b[4:] {
			got = append(got, binary.LittleEndian.Uint32(b))
		}
	}
	if !slices.Equal(got, []uint32{1, 50256, 0}) || bad != 3 {
		t.Errorf("tokens %v and %d bad lines, want [1 50256 0] and 3", got, bad)
	}
}

// Records may specify which of their tokens have a loss, and its weight.
func TestJSONLines_LossAndWeight(t *testing.T) {
	lines := []string{
		`{"parts":[{"text":"ask","loss":false},{"text":"say"}],"weight":0.5}`,
		`{"text":"whole","weight":1}`,
		`{"text":"wins","parts":7}`,
		`{"parts":[]}`,
		`{"parts":[{"text":""}]}`,
	}
	wrong := []string{`{"parts":"text"}`, `{"parts":null}`, `{"parts":["a"]}`, `{"parts":[{"loss":true}]}`,
		`{"parts":[{"text":"a","loss":1}]}`,
		`{"text":"a","weight":-1}`, `{"text":"a","weight":"1"}`, `{"text":"a","weight":1e99}`}
	stdin := strings.NewReader(strings.Join(append(lines, wrong...), "\n"))
	inputs, err := corpus.Open(t.Context(), []string{"-"}, stdin, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	bad := 0
	for d, err := range inputs[0].Documents(t.Context()) {
		if err != nil {
			bad++
			continue
		}
		weight := ""
		if d.Weight != nil {
			weight = fmt.Sprint(" ", *d.Weight)
		}
		got = append(got, fmt.Sprint(d.Parts, " ", string(d.Data), weight))
	}
	want(t, "documents", got, []string{`true {"parts":[{"text":"ask","loss":false},{"text":"say"}]} 0.5`, "false whole",
		"false wins", "true ", "true "})
	if bad != len(wrong) {
		t.Errorf("%d records are bad, want %d", bad, len(wrong))
	}
	stdin = strings.NewReader(`{"ids":[1,2,3,4],"loss":[false,0,true,1]}` + "\n" + `{"ids":[1],"loss":[1,1]}` + "\n" +
		`{"ids":[1],"loss":[2]}` + "\n" + `{"ids":[1]}`)
	if inputs, err = corpus.Open(t.Context(), []string{"-"}, stdin, corpus.Options{Tokens: true}); err != nil {
		t.Fatal(err)
	}
	var losses [][]int32
	bad = 0
	for d, err := range inputs[0].Documents(t.Context()) {
		if err != nil {
			bad++
			continue
		}
		losses = append(losses, d.Loss)
	}
	if bad != 2 || len(losses) != 2 || !slices.Equal(losses[0], []int32{0, 2, 2}) || losses[1] != nil {
		t.Errorf("losses %v and %d bad lines", losses, bad)
	}
}

func TestErrors_NameFile(t *testing.T) {
	long := strings.Repeat(`{"text":"some words, again and again"}`+"\n", 1000)
	dir := folder(t, map[string]string{
		"cut.jsonl.gz": gzipped(t, long)[:100], "cut.jsonl.zst": zstandard(t, long)[:40], "none.jsonl.gz": "",
		"plain.jsonl.gz": "this is not gzip at all", "cut.txt.gz": gzipped(t, long)[:100],
		"image.png": "\x89PNG\x00", "bad.parquet": "PAR1 nonsense PAR1", "empty.parquet": "",
	})
	for name, part := range map[string]string{
		"cut.jsonl.gz": "truncated", "cut.jsonl.zst": "truncated", "none.jsonl.gz": "truncated",
		"plain.jsonl.gz": "no compressed data",
		"cut.txt.gz":     "truncated", "image.png": "binary", "bad.parquet": "Parquet", "empty.parquet": "Parquet",
		"absent.txt": "no such file",
	} {
		_, _, err := read(t, []string{filepath.Join(dir, name)}, nil, corpus.Options{Tokens: name == "image.png"})
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error is %v, want one that names the file and contains %q", name, err, part)
		}
	}
	for _, c := range []struct {
		path string
		o    corpus.Options
	}{
		{"-", corpus.Options{Format: corpus.Parquet}},
		{dir, corpus.Options{Format: "xml"}},
	} {
		if _, err := corpus.Open(t.Context(), []string{c.path}, nil, c.o); err == nil {
			t.Errorf("open %s with %+v: no error", c.path, c.o)
		}
	}
}

func TestMaxDocument_SkipsLargerText(t *testing.T) {
	dir := folder(t, map[string]string{"fits.txt": strings.Repeat("x", 100), "over.txt": strings.Repeat("x", 101),
		"z.txt.gz": gzipped(t, strings.Repeat("x", 1<<20))})
	docs, skipped, err := read(t, []string{dir}, nil, corpus.Options{MaxDocument: 100})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "documents", docs, []string{"fits.txt||" + strings.Repeat("x", 100)})
	want(t, "left out", skipped, []string{"over.txt:0 too large", "z.txt.gz:0 too large"})
}

func TestBytesRead_CountsCompressedBytes(t *testing.T) {
	dir := folder(t, map[string]string{"a.jsonl.gz": gzipped(t, `{"text":"a"}`), "b.txt": "text"})
	inputs, err := corpus.Open(t.Context(), []string{dir}, nil, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range inputs {
		for _, err := range in.Documents(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if in.BytesRead() != in.Bytes || in.Bytes == 0 {
			t.Errorf("%s: read %d of %d bytes", in.Name, in.BytesRead(), in.Bytes)
		}
	}
}

// For arbitrary bytes: no panic, every line is a document, skipped or blank, and the valid line after them is still
// read.
func FuzzJSONLines(f *testing.F) {
	for _, s := range []string{`{"text":"a"}`, `{"text":`, "\x00", "{}\n[]\n\n1", `{"text":"\ud800"}`, "\xff\xfe",
		`{"ids":[1e99]}`, `{"text":"a","text":2}`} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, asTokens bool) {
		good := `{"text":"the last","ids":[7]}`
		data = append([]byte(" "), data...) // otherwise a UTF-16 byte order mark would hide that line
		o := corpus.Options{Format: corpus.JSONL, Tokens: asTokens, MaxDocument: 1 << 10}
		docs, skipped, err := read(t, []string{"-"}, io.MultiReader(bytes.NewReader(data), strings.NewReader("\n"+good)), o)
		if err != nil {
			t.Fatal(err)
		}
		last := "-||the last"
		if asTokens {
			last = "-||\x07\x00\x00\x00"
		}
		if len(docs) == 0 || docs[len(docs)-1] != last {
			t.Fatalf("last document is lost: %q", docs)
		}
		if lines := bytes.Count(data, []byte("\n")) + 2; len(docs)+len(skipped) > lines {
			t.Fatalf("%d documents and %d left out of %d lines", len(docs), len(skipped), lines)
		}
	})
}

// A pipe is read like standard input: once, without a fingerprint, as JSON lines.
func TestPipe_IsReadOnceAsJSONLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	inputs, err := corpus.Open(t.Context(), []string{path}, nil, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(inputs) != 1 || inputs[0].Fingerprint != "" || inputs[0].Bytes != 0 {
		t.Fatalf("inputs %+v, want one without fingerprint and size", inputs)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(path, []byte(`{"text":"one"}`+"\n"+`{"text":"two"}`), 0) }()
	docs, skipped, err := read(t, []string{path}, nil, corpus.Options{})
	if err := errors.Join(err, <-written); err != nil || len(skipped) > 0 {
		t.Fatal(err, skipped)
	}
	want(t, "documents", docs, []string{path + "||one", path + "||two"})
	if _, err := corpus.Open(t.Context(), []string{path}, nil, corpus.Options{Format: corpus.Parquet}); err == nil ||
		!strings.Contains(err.Error(), "a Parquet file must not be compressed") {
		t.Errorf("Parquet from a pipe: %v", err)
	}
}

// The wait for a pipe's writer, or for its data, can be interrupted.
func TestPipe_WaitCanBeInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, stdin := range []io.Reader{nil, idle{}} {
		name := path
		if stdin != nil {
			name = "-"
		}
		inputs, err := corpus.Open(t.Context(), []string{name}, stdin, corpus.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		var last error
		for _, err := range inputs[0].Documents(ctx) {
			last = err
		}
		if !errors.Is(last, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want the context's error", name, last)
		}
	}
}

// idle is an input that never returns data.
type idle struct{}

func (idle) Read([]byte) (int, error) { select {} }

// A shell's <(command) is a link in /dev/fd whose target is not a file.
func TestPipe_ProcessSubstitution(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.WriteString(w, `{"text":"one"}`); err != nil {
		t.Fatal(err)
	}
	w.Close()
	path := fmt.Sprintf("/dev/fd/%d", r.Fd())
	docs, _, err := read(t, []string{path}, nil, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "documents", docs, []string{path + "||one"})
}

func TestOpen_ErrorGivesFullMissingPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent", "deep", "d.jsonl")
	if _, err := corpus.Open(t.Context(), []string{path}, nil, corpus.Options{}); err == nil ||
		err.Error() != "find documents: "+path+": no such file or directory" {
		t.Errorf("error %v, want one that names %s", err, path)
	}
}

// The files of a folder with many small files share buffers.
func TestFolder_SmallFilesShareBuffers(t *testing.T) {
	const files, each = 200, 256 << 10
	dir := t.TempDir()
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)+".txt"), []byte("a text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	inputs, err := corpus.Open(t.Context(), []string{dir}, nil, corpus.Options{Format: corpus.Text})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, in := range inputs {
		for d, err := range in.Documents(t.Context()) {
			if err != nil || string(d.Data) != "a text" {
				t.Fatalf("%s holds %q: %v", d.Path, d.Data, err)
			}
			n++
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; n != files || took > files*each {
		t.Errorf("%d of %d documents took %d bytes of memory, where a buffer for each of the two times that a file is "+
			"opened is %d", n, files, took, 2*files*each)
	}
}

// Batches are bounded by the length of texts, so a text of escapes does not retain a buffer of the length of its line.
func TestJSONLines_MemoryOfEscapedText(t *testing.T) {
	sizes := []int{20, 1_000, 100_000, 1 << 20}
	var lines strings.Builder
	for _, n := range sizes {
		for _, escape := range []string{`\u0041`, `\u00e9`, `\u6f22`, `\ud83d\ude00`, `\n`} {
			fmt.Fprintf(&lines, `{"text":"%s"}`+"\n", strings.Repeat(escape, n))
		}
	}
	path := filepath.Join(folder(t, map[string]string{"a.jsonl": lines.String()}), "a.jsonl")
	inputs, err := corpus.Open(t.Context(), []string{path}, nil, corpus.Options{Format: corpus.JSONL})
	if err != nil {
		t.Fatal(err)
	}
	documents := 0
	for d, err := range inputs[0].Documents(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		documents++
		if have, most := cap(d.Data), len(d.Data)+max(len(d.Data)/4, 32); have > most {
			t.Errorf("a text of %d bytes has a buffer of %d, at most %d", len(d.Data), have, most)
		}
	}
	if documents != 5*len(sizes) {
		t.Errorf("%d documents", documents)
	}
}

// A line is held in its parts, then as a whole, and next to its document. A text that is mostly escapes is decoded into
// a buffer of the line's length.
func TestJSONLines_MemoryOfLongLine(t *testing.T) {
	words := strings.Repeat("some words ", 1<<20)
	for name, c := range map[string]struct {
		line   string
		tokens bool
		most   float64
	}{
		"text":       {`{"other":"` + words + `","text":"` + words[:1<<20] + `"}`, false, 3},
		"all text":   {`{"text":"` + words + `"}`, false, 3.5},
		"lines":      {strings.Repeat(`{"text":"`+words[:2<<20]+`"}`+"\n", 8), false, 2},
		"escapes":    {`{"text":"` + strings.Repeat(`\u0041`, 2<<20) + `"}`, false, 4},
		"parts":      {`{"other":"` + words + `","parts":[{"text":"` + words[:1<<20] + `"}]}`, false, 3},
		"not finite": {`{"other":"` + words + `","score":NaN,"text":"` + words[:1<<20] + `"}`, false, 3},
		"ids":        {`{"other":"` + words[:3<<20] + `","ids":[7` + strings.Repeat(`,1234567`, 1<<20) + `]}`, true, 3.5},
		"loss": {`{"ids":[7` + strings.Repeat(`,1234567`, 1<<20) + `],"loss":[1` + strings.Repeat(`,true`, 1<<20) + `]}`,
			true, 3.5},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(folder(t, map[string]string{"a.jsonl": c.line + "\n"}), "a.jsonl")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			size := 0
			inputs, err := corpus.Open(t.Context(), []string{path}, nil, corpus.Options{Format: corpus.JSONL, Tokens: c.tokens})
			if err != nil {
				t.Fatal(err)
			}
			for d, err := range inputs[0].Documents(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				size += len(d.Data)
			}
			runtime.ReadMemStats(&after)
			if took := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(c.line)); size < 1<<20 || took > c.most {
				t.Errorf("%d bytes of documents in %d bytes take %.2f times as much, at most %.2f", size, len(c.line), took, c.most)
			}
		})
	}
}
