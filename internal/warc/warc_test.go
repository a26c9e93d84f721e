package warc_test

import (
	"compress/flate"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"loaderd/internal/warc"
)

// record returns a record of an archive.
func record(kind, fields, body string) string {
	return fmt.Sprintf("WARC/1.0\r\nWARC-Type: %s\r\n%sContent-Length: %d\r\n\r\n%s\r\n\r\n", kind, fields,
		len(body), body)
}

// records returns type, URI and body of all records.
func records(data string) (out []string, err error) {
	a := warc.NewReader(strings.NewReader(data))
	for {
		r, err := a.Next()
		if err == io.EOF {
			return out, nil
		}
		if damaged := (*warc.DamageError)(nil); errors.As(err, &damaged) {
			out = append(out, "damage: "+err.Error())
			continue
		}
		if err != nil {
			return out, err
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, 5))
		if err != nil {
			return out, err
		}
		out = append(out, r.Type()+" "+r.Get("WARC-Target-URI")+" "+string(body))
		if r.Damage != nil {
			out = append(out, "corrected: "+r.Damage.Error())
		}
	}
}

func TestReader_Records(t *testing.T) {
	two := record("conversion", "WARC-Target-URI: http://a\r\n", "first text") + record("metadata",
		"WARC-Target-URI: http://b/\r\n c\r\nWARC-Target-URI: no\r\n", "")
	for _, c := range []struct {
		name, data string
		want       []string
		err        string
	}{
		{name: "none"},
		{name: "two, read in part, with a field on two lines", data: two, want: []string{"conversion http://a first",
			"metadata http://b/ c "}},
		{name: "lines of Unix", data: strings.ReplaceAll(two, "\r\n", "\n"), want: []string{"conversion http://a first",
			"metadata http://b/ c "}},
		{name: "empty lines at the end", data: two + "\r\n\r\n", want: []string{"conversion http://a first",
			"metadata http://b/ c "}},
		{name: "cut off in a body", data: two[:strings.Index(two, "first")+3], err: "cut off"},
		{name: "cut off in a header", data: two[:40], err: "cut off"},
		{name: "no archive", data: "something else", err: "no WARC record"},
		{name: "a huge length", data: strings.Replace(two, "Length: 10", "Length: 9223372036854775807", 1),
			want: []string{"conversion http://a first"}, err: "cut off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := records(c.data)
			if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil &&
				!strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q and %v, want %q and %q", got, err, c.want, c.err)
			}
		})
	}
}

// After damage, reading continues at the next record, and the skipped part is reported.
func TestReader_Resynchronises(t *testing.T) {
	first, second := record("conversion", "WARC-Target-URI: http://a\r\n", "first text"),
		record("conversion", "WARC-Target-URI: http://b\r\n", "second")
	length := func(n string) string { return strings.Replace(first, "Length: 10", "Length: "+n, 1) }
	large := strings.Repeat("large\n", 400_000)
	one, two := "conversion http://a first", "conversion http://b secon"
	for _, c := range []struct {
		name, data string
		want       []string
	}{
		{"too short", length("9") + second, []string{one,
			"corrected: its length is 9, and the next record follows 10 bytes: they are read", two}},
		{"too short at the end", second + length("9"),
			[]string{two, one, "corrected: its length is 9, and the next record follows 10 bytes: they are read"}},
		{"too long", length("30") + second, []string{"damage: no record begins where a record of 30 bytes ends", two}},
		{"too long beyond the end", length("3000") + second,
			[]string{"damage: no record begins where a record of 3000 bytes ends", two}},
		{"none", length("x") + second, []string{`damage: a record has the length "x": want a number of bytes`, two}},
		{"negative", length("-1") + second, []string{`damage: a record has the length "-1": want a number of bytes`, two}},
		{"a large record", strings.Replace(record("conversion", "", large), "Length: 24", "Length: 23", 1) + second,
			[]string{"conversion  large", "damage: no record begins where the previous one ends", two}},
		{"NULs", first + "\x00" + second + "\x00\x00", []string{one, "damage: 1 bytes behind a record are not part of one",
			two, "damage: 2 bytes behind a record are not part of one"}},
		{"garbage", first + "no WARC/1.0 is this\n" + second,
			[]string{one, "damage: 19 bytes behind a record are not part of one", two}},
		{"much garbage", first + large + "x" + second,
			[]string{one, "damage: 2400001 bytes behind a record are not part of one", two}},
		{"a huge header", "WARC/1.0\r\nA: " + strings.Repeat("x", 2<<20) + "\r\n" + second,
			[]string{"damage: a header of more than 1048576 bytes", two}},
		{"the words within a text", record("conversion", "WARC-Target-URI: http://a\r\n",
			"first\nWARC/1.0\nWARC-Type: x\n\n") + second, []string{one, two}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := records(c.data)
			if !slices.Equal(got, c.want) || err != nil {
				t.Errorf("got %q and %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestContent_DecodesTransferAndContentEncodings(t *testing.T) {
	const zipped = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xcaH\xcd\xc9\xc9\x07\x04\x00\x00\xff\xff" +
		"\x86\xa6\x106\x05\x00\x00\x00"
	for _, c := range []struct{ name, fields, body, want, err string }{
		{name: "plain", body: "hello", want: "hello"},
		{name: "chunks", fields: "Transfer-Encoding: chunked\r\n", body: "2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
			want: "hello"},
		{name: "chunks that were joined", fields: "Transfer-Encoding: chunked\r\n", body: "hello\nyou", want: "hello\nyou"},
		{name: "gzip", fields: "Content-Encoding: gzip\r\n", body: zipped, want: "hello"},
		{name: "gzip that was unpacked", fields: "Content-Encoding: gzip\r\n", body: "hello", want: "hello"},
		{name: "another coding", fields: "Content-Encoding: sdch\r\n", body: "hello", err: `"sdch"`},
		{name: "zlib", fields: "Content-Encoding: deflate\r\n", body: encoded(t, func(w io.Writer) io.WriteCloser {
			return zlib.NewWriter(w)
		}), want: "hello"},
		{name: "deflate", fields: "Content-Encoding: deflate\r\n", body: encoded(t, func(w io.Writer) io.WriteCloser {
			z, _ := flate.NewWriter(w, 9)
			return z
		}), want: "hello"},
		{name: "brotli", fields: "Content-Encoding: br\r\n", body: encoded(t, func(w io.Writer) io.WriteCloser {
			return brotli.NewWriter(w)
		}), want: "hello"},
		{name: "zstd", fields: "Content-Encoding: zstd\r\n", body: encoded(t, func(w io.Writer) io.WriteCloser {
			z, _ := zstd.NewWriter(w)
			return z
		}), want: "hello"},
		{name: "damaged chunks", fields: "Transfer-Encoding: chunked\r\n", body: "2\r\nhello", want: "he", err: "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, body, err := warc.Response(strings.NewReader("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" + c.fields +
				"\r\n" + c.body))
			if err != nil {
				t.Fatal(err)
			}
			var got []byte
			content, err := warc.Content(h, body)
			if err == nil {
				got, err = io.ReadAll(content)
			}
			if string(got) != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q and %v, want %q and %q", got, err, c.want, c.err)
			}
		})
	}
	if _, _, err := warc.Response(strings.NewReader("220 ftp")); err == nil {
		t.Error("takes what is no response")
	}
}

// encoded returns "hello" in a coding.
func encoded(tb testing.TB, open func(io.Writer) io.WriteCloser) string {
	tb.Helper()
	var b strings.Builder
	w := open(&b)
	if _, err := io.WriteString(w, "hello"); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

func TestMedia_TypeAndCharset(t *testing.T) {
	for in, want := range map[string][2]string{
		"text/plain": {"text/plain", ""}, `Text/HTML; a=b; Charset="UTF-8"`: {"text/html", "utf-8"}, "": {"", ""},
	} {
		if media, charset := warc.Media(in); media != want[0] || charset != want[1] {
			t.Errorf("%q: %q, %q", in, media, charset)
		}
	}
}

func FuzzRecords(f *testing.F) {
	f.Add(record("response", "",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n2\r\nhe\r\n0\r\n\r\n"))
	f.Add(record("conversion", "WARC-Target-URI: http://a\r\n", "text") + record("metadata", "", ""))
	f.Add(strings.Replace(record("conversion", "", "text"), "Length: 4", "Length: 3", 1) + record("conversion", "",
		"text") + "\x00")
	f.Fuzz(func(t *testing.T, data string) {
		a := warc.NewReader(strings.NewReader(data))
		for range 4*len(data) + 4 {
			r, err := a.Next()
			if damaged := (*warc.DamageError)(nil); errors.As(err, &damaged) {
				continue
			}
			if err != nil {
				return
			}
			h, body, err := warc.Response(r.Body)
			if err != nil {
				continue
			}
			if content, err := warc.Content(h, body); err == nil {
				_, _ = io.Copy(io.Discard, io.LimitReader(content, 1<<16)) // must end without a panic
			}
		}
		t.Fatal("the reading does not end")
	})
}
