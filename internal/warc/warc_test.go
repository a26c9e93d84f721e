package warc_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/warc"
)

// record makes one of an archive.
func record(kind, fields, body string) string {
	return fmt.Sprintf("WARC/1.0\r\nWARC-Type: %s\r\n%sContent-Length: %d\r\n\r\n%s\r\n\r\n", kind, fields, len(body), body)
}

// records returns type, URI and body of all.
func records(data string) (out []string, err error) {
	a := warc.NewReader(strings.NewReader(data))
	for {
		r, err := a.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, 5))
		if err != nil {
			return out, err
		}
		out = append(out, r.Type()+" "+r.Get("WARC-Target-URI")+" "+string(body))
	}
}

func TestRecords(t *testing.T) {
	two := record("conversion", "WARC-Target-URI: http://a\r\n", "first text") + record("metadata", "WARC-Target-URI: http://b/\r\n c\r\nWARC-Target-URI: no\r\n", "")
	for _, c := range []struct {
		name, data string
		want       []string
		err        string
	}{
		{name: "none"},
		{name: "two, read in part, with a field on two lines", data: two, want: []string{"conversion http://a first", "metadata http://b/ c "}},
		{name: "lines of Unix", data: strings.ReplaceAll(two, "\r\n", "\n"), want: []string{"conversion http://a first", "metadata http://b/ c "}},
		{name: "empty lines at the end", data: two + "\r\n\r\n", want: []string{"conversion http://a first", "metadata http://b/ c "}},
		{name: "cut off in a body", data: two[:strings.Index(two, "first")+3], err: "cut off"},
		{name: "cut off in a header", data: two[:40], err: "cut off"},
		{name: "no archive", data: "something else", err: "no WARC record"},
		{name: "a length that leads elsewhere", data: strings.Replace(two, "Length: 10", "Length: 4", 1), want: []string{"conversion http://a firs"}, err: "no WARC record"},
		{name: "a negative length", data: strings.Replace(two, "Length: 10", "Length: -1", 1), err: `the length "-1"`},
		{name: "a huge length", data: strings.Replace(two, "Length: 10", "Length: 9223372036854775807", 1), want: []string{"conversion http://a first"}, err: "cut off"},
		{name: "a huge header", data: "WARC/1.0\r\nA: " + strings.Repeat("x", 2<<20), err: "a header of more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := records(c.data)
			if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q and %v, want %q and %q", got, err, c.want, c.err)
			}
		})
	}
}

func TestResponse(t *testing.T) {
	const zipped = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xcaH\xcd\xc9\xc9\x07\x04\x00\x00\xff\xff\x86\xa6\x106\x05\x00\x00\x00"
	for _, c := range []struct{ name, fields, body, want, err string }{
		{name: "plain", body: "hello", want: "hello"},
		{name: "chunks", fields: "Transfer-Encoding: chunked\r\n", body: "2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n", want: "hello"},
		{name: "chunks that were joined", fields: "Transfer-Encoding: chunked\r\n", body: "hello\nyou", want: "hello\nyou"},
		{name: "gzip", fields: "Content-Encoding: gzip\r\n", body: zipped, want: "hello"},
		{name: "gzip that was unpacked", fields: "Content-Encoding: gzip\r\n", body: "hello", want: "hello"},
		{name: "another coding", fields: "Content-Encoding: sdch\r\n", body: "hello", err: `"sdch"`},
		{name: "damaged chunks", fields: "Transfer-Encoding: chunked\r\n", body: "2\r\nhello", want: "he", err: "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, content, err := warc.Response(strings.NewReader("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" + c.fields + "\r\n" + c.body))
			var got []byte
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

func TestMedia(t *testing.T) {
	for in, want := range map[string][2]string{
		"text/plain": {"text/plain", ""}, `Text/HTML; a=b; Charset="UTF-8"`: {"text/html", "utf-8"}, "": {"", ""},
	} {
		if media, charset := warc.Media(in); media != want[0] || charset != want[1] {
			t.Errorf("%q: %q, %q", in, media, charset)
		}
	}
}

func FuzzRecords(f *testing.F) {
	f.Add(record("response", "", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n2\r\nhe\r\n0\r\n\r\n"))
	f.Add(record("conversion", "WARC-Target-URI: http://a\r\n", "text") + record("metadata", "", ""))
	f.Fuzz(func(_ *testing.T, data string) {
		a := warc.NewReader(strings.NewReader(data))
		for {
			r, err := a.Next()
			if err != nil {
				return
			}
			if _, content, err := warc.Response(r.Body); err == nil {
				_, _ = io.Copy(io.Discard, io.LimitReader(content, 1<<16)) // whatever it is, it ends
			}
		}
	})
}
