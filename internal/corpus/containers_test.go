package corpus_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"loaderd/internal/corpus"
	"loaderd/internal/tokenfiles"
)

// container returns a file of a container format with some texts.
type container func(tb testing.TB, texts ...string) string

func inGzip(tb testing.TB, texts ...string) string { return gzipped(tb, linesOf(texts)) }
func inZstd(tb testing.TB, texts ...string) string { return zstandard(tb, linesOf(texts)) }
func inXZ(tb testing.TB, texts ...string) string   { return xzipped(tb, linesOf(texts)) }

func linesOf(texts []string) string {
	var b strings.Builder
	for _, text := range texts {
		b.WriteString(`{"text":"` + text + "\"}\n")
	}
	return b.String()
}

func inTar(tb testing.TB, texts ...string) string {
	tb.Helper()
	var files []string
	for i, text := range texts {
		files = append(files, strconv.Itoa(i)+".txt", text)
	}
	return tarOf(tb, files...)
}

func inTarGzip(tb testing.TB, texts ...string) string { return gzipped(tb, inTar(tb, texts...)) }

// textRecord returns a record batch with texts in a named column.
func textRecord(tb testing.TB, column string, texts []string) arrow.Record {
	tb.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator,
		arrow.NewSchema([]arrow.Field{{Name: column, Type: arrow.BinaryTypes.String}}, nil))
	defer b.Release()
	b.Field(0).(*array.StringBuilder).AppendValues(texts, nil)
	return b.NewRecord()
}

func inArrowStream(tb testing.TB, texts ...string) string { return streamOf(tb, "text", texts...) }

func streamOf(tb testing.TB, column string, texts ...string) string {
	tb.Helper()
	r := textRecord(tb, column, texts)
	defer r.Release()
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(r.Schema()))
	if err := errors.Join(w.Write(r), w.Close()); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

func inArrowFile(tb testing.TB, texts ...string) string {
	tb.Helper()
	r := textRecord(tb, "text", texts)
	defer r.Release()
	name := filepath.Join(tb.TempDir(), "a.arrow")
	f, err := os.Create(name)
	if err != nil {
		tb.Fatal(err)
	}
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(r.Schema()))
	if err != nil {
		tb.Fatal(err)
	}
	if err := errors.Join(w.Write(r), w.Close(), f.Close()); err != nil {
		tb.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

func inParquet(tb testing.TB, texts ...string) string {
	tb.Helper()
	r := textRecord(tb, "text", texts)
	defer r.Release()
	var b bytes.Buffer
	w, err := pqarrow.NewFileWriter(r.Schema(), &b, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	if err != nil {
		tb.Fatal(err)
	}
	if err := errors.Join(w.Write(r), w.Close()); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

func inWARC(_ testing.TB, texts ...string) string {
	var b strings.Builder
	for _, text := range texts {
		b.WriteString(warcRecord("conversion", "text/plain", text))
	}
	return b.String()
}

// textsOf returns the content of documents.
func textsOf(docs []string) (texts []string) {
	for _, d := range docs {
		texts = append(texts, d[strings.LastIndex(d, "|")+1:])
	}
	return texts
}

// Data after the end of a container is read, skipped and counted, or an error; it is never ignored silently.
func TestContainers_TrailingDataIsNotIgnored(t *testing.T) {
	const read, refused = "", "an error"
	zeros, garbage := strings.Repeat("\x00", 1024), "garbage that is no header of anything\n"
	for _, c := range []struct {
		name                   string
		make                   container
		second, padded, behind string // "read", the reason of a skip, or "refused"
	}{
		{"a.jsonl.gz", inGzip, read, read, "trailing"},
		{"a.tar.gz", inTarGzip, read, read, "trailing"},
		{"a.jsonl.zst", inZstd, read, refused, refused},
		{"a.jsonl.xz", inXZ, read, read, refused},
		{"a.tar", inTar, read, read, refused},
		{"a.arrow", inArrowStream, read, refused, refused},
		{"a.feather", inArrowFile, refused, refused, refused},
		{"a.parquet", inParquet, refused, refused, refused},
		{"a.warc", inWARC, read, "damaged", "damaged"},
	} {
		for what, file := range map[string]struct {
			content string
			texts   []string
			outcome string
		}{
			"alone":               {c.make(t, "one", "two"), []string{"one", "two"}, read},
			"second":              {c.make(t, "one") + c.make(t, "two"), []string{"one", "two"}, c.second},
			"zeros":               {c.make(t, "one") + zeros, []string{"one"}, c.padded},
			"second behind zeros": {c.make(t, "one") + zeros + c.make(t, "two"), []string{"one", "two"}, c.padded},
			"garbage":             {c.make(t, "one") + garbage, []string{"one"}, c.behind},
			"short garbage":       {c.make(t, "one") + "\n\x01", []string{"one"}, c.behind},
			"third of two of one row": {c.make(t, "one") + c.make(t, "three") + c.make(t, "two"),
				[]string{"one", "three", "two"}, c.second},
		} {
			t.Run(c.name+"/"+what, func(t *testing.T) {
				dir := folder(t, map[string]string{c.name: file.content})
				docs, skipped, err := readPath(t, filepath.Join(dir, c.name))
				if (err != nil) != (file.outcome == refused) {
					t.Fatalf("documents %q, left out %q, error %v; want %q", docs, skipped, err, file.outcome)
				}
				if err != nil {
					return
				}
				want(t, "documents", textsOf(docs), file.texts)
				var left []string
				if file.outcome != read {
					left = []string{file.outcome}
				}
				for i := range skipped {
					skipped[i] = skipped[i][strings.LastIndex(skipped[i], " ")+1:]
				}
				want(t, "left out", slices.Compact(skipped), left)
			})
		}
	}
}

// Files of token ids specify how many ids they have: additional data is an error.
func TestTokenFiles_TrailingDataIsError(t *testing.T) {
	npy := npyFile("<u2", "2,", shorts(1, 9))
	llmc := string(slices.Concat(little.AppendUint32(nil, 20240520), little.AppendUint32(nil, 1),
		little.AppendUint32(nil, 2), make([]byte, 1012))) + shorts(1, 9)
	for name, content := range map[string]string{"a.npy": npy, "a.bin": llmc} {
		for what, behind := range map[string]string{"": "", "a second file": content, "zeros": "\x00\x00\x00\x00",
			"a byte": "x"} {
			dir := folder(t, map[string]string{name: content + behind})
			docs, _, err := read(t, []string{filepath.Join(dir, name)}, nil,
				corpus.Options{Tokens: true, Boundaries: tokenfiles.Boundaries{End: &end}})
			if (err != nil) != (behind != "") || len(docs) != 1 {
				t.Errorf("%s with %q behind: %q, %v", name, what, docs, err)
			}
		}
	}
	index := megatronIndex(2)
	for what, behind := range map[string]string{"": "", "a second index": index, "zeros": "\x00\x00\x00\x00"} {
		dir := folder(t, map[string]string{"a.idx": index + behind, "a.bin": shorts(1, 9)})
		docs, _, err := read(t, []string{filepath.Join(dir, "a.idx")}, nil, corpus.Options{Tokens: true})
		if (err != nil) != (behind != "") {
			t.Errorf("an index with %q behind: %q, %v", what, docs, err)
		}
	}
}

// readPath reads one file of texts.
func readPath(tb testing.TB, path string) (docs, skipped []string, err error) {
	tb.Helper()
	return read(tb, []string{path}, nil, corpus.Options{})
}

// An Arrow stream after another one is read only if it has the same columns.
func TestArrow_RefusesConcatenatedStreamsOfOtherColumns(t *testing.T) {
	dir := folder(t, map[string]string{"a.arrow": inArrowStream(t, "one") + streamOf(t, "other", "two")})
	docs, _, err := readPath(t, filepath.Join(dir, "a.arrow"))
	if len(docs) != 1 || err == nil || !strings.Contains(err.Error(), "other columns") {
		t.Errorf("%q, %v", docs, err)
	}
}

// Padding between gzip members is skipped. Other data between them is an error, since a member may have been lost
// there.
func TestGzip_DataBetweenMembers(t *testing.T) {
	one, two := inGzip(t, "one"), inGzip(t, "two")
	broken := []byte(inGzip(t, strings.Repeat("lost ", 50)))
	broken[len(broken)-6] ^= 1 // a byte of its checksum
	for name, c := range map[string]struct{ content, err string }{
		"zeros":          {one + "\x00\x00" + two, ""},
		"garbage":        {one + "garbage" + two, "7 bytes between two members are not gzip data"},
		"checksum":       {one + string(broken) + two, "invalid checksum"},
		"member cut off": {one + two[:len(two)-3], "truncated"},
		"header cut off": {one + two[:5], "truncated"},
		"magic cut off":  {one + two[:2], "truncated"},
	} {
		dir := folder(t, map[string]string{"a.jsonl.gz": c.content})
		docs, skipped, err := readPath(t, filepath.Join(dir, "a.jsonl.gz"))
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || len(skipped) > 0 ||
			err == nil && len(docs) != 2 {
			t.Errorf("%s: %q, left out %q, %v; want %q", name, docs, skipped, err, c.err)
		}
	}
}

// Skippable frames of zstd hold no data: pzstd files start with one, and seekable files end with one.
func TestZstd_SkippableFrames(t *testing.T) {
	skippable := func(magic byte, n int) string {
		frame := append([]byte{magic}, "\x2a\x4d\x18"...)
		return string(binary.LittleEndian.AppendUint32(frame, uint32(n))) + strings.Repeat("x", n)
	}
	one, two := inZstd(t, "one"), inZstd(t, "two")
	for _, name := range []string{"a.jsonl.zst", "a.jsonl"} {
		dir := folder(t, map[string]string{name: skippable(0x50, 4) + one + skippable(0x5f, 70_000) + two +
			skippable(0x5e, 0)})
		docs, skipped, err := readPath(t, filepath.Join(dir, name))
		if err != nil || len(skipped) > 0 {
			t.Errorf("%s: left out %q, %v", name, skipped, err)
		}
		want(t, name, textsOf(docs), []string{"one", "two"})
	}
	dir := folder(t, map[string]string{"a.jsonl.zst": one + skippable(0x50, 100)[:50]})
	if _, _, err := readPath(t, filepath.Join(dir, "a.jsonl.zst")); err == nil ||
		!strings.Contains(err.Error(), "truncated") {
		t.Errorf("a frame that is cut off: %v", err)
	}
}

// A damaged gzip member of a web archive causes the loss of its record only.
func TestWARC_DamagedGzipMemberLosesOneRecord(t *testing.T) {
	member := func(text string) string { return gzipped(t, inWARC(t, text)) }
	broken := []byte(member(strings.Repeat("lost ", 50)))
	broken[len(broken)/2] ^= 0x55
	short := gzipped(t, strings.Replace(inWARC(t, "one text"), "Length: 8", "Length: 7", 1))
	long := gzipped(t, strings.Replace(inWARC(t, "lost"), "Length: 4", "Length: 900", 1))
	for name, c := range map[string]struct {
		content string
		texts   []string
		left    int
	}{
		"whole": {member("one") + member("two"), []string{"one", "two"}, 0},
		// two skips: the data, and the record in it
		"damaged":          {member("one") + string(broken) + member("two"), []string{"one", "two"}, 2},
		"garbage":          {member("one") + "garbage" + member("two"), []string{"one", "two"}, 1},
		"length too small": {member("one") + short + member("two"), []string{"one", "one text", "two"}, 1},
		"length too large": {member("one") + long + member("two"), []string{"one", "two"}, 1},
		"trailing":         {member("one") + member("two") + "garbage", []string{"one", "two"}, 1},
	} {
		dir := folder(t, map[string]string{"a.warc.gz": c.content})
		docs, skipped, err := readPath(t, filepath.Join(dir, "a.warc.gz"))
		if err != nil || len(skipped) != c.left {
			t.Errorf("%s: left out %q, %v", name, skipped, err)
		}
		want(t, name, textsOf(docs), c.texts)
	}
}

// The content coding is irrelevant for a skipped page, but not for a text.
func TestWARC_ContentCodings(t *testing.T) {
	response := func(media, coding string) string {
		return warcRecord("response", "application/http", "HTTP/1.1 200 OK\r\nContent-Type: "+media+"\r\nContent-Encoding: "+
			coding+"\r\n\r\nhello")
	}
	dir := folder(t, map[string]string{"a.warc": response("text/html", "sdch") + response("image/png", "br") +
		response("text/plain", "sdch") + response("text/plain", "identity")})
	docs, skipped, err := readPath(t, filepath.Join(dir, "a.warc"))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "documents", textsOf(docs), []string{"hello"})
	want(t, "left out", skipped, []string{"a.warc:1 html", "a.warc:2 media", "a.warc:3 encoding"})
}
