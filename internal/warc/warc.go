// Package warc reads the records of web archives (ISO 28500, versions 0.17 to 1.1). The libraries for Go load whole records or spool them to disk; this one
// streams, and what a record's header may take is bounded.
package warc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// Magic begins every record.
const Magic = "WARC/"

// headerMost bounds the header of a record, and of the HTTP response within.
const headerMost = 1 << 20

// Header has fields by their names in lower case. Of a field that is there several times the first counts.
type Header map[string]string

// Get returns a field, whatever the case of its name; empty for none.
func (h Header) Get(name string) string { return h[strings.ToLower(name)] }

// Record is one of an archive. Body is good until the next one.
type Record struct {
	Header
	Body io.Reader
}

// Type is response, conversion, request, and others.
func (r *Record) Type() string { return strings.ToLower(r.Get("WARC-Type")) }

// Media is a Content-Type without its parameters, in lower case, and its charset where it names one.
func Media(contentType string) (media, charset string) {
	media, rest, _ := strings.Cut(strings.ToLower(contentType), ";")
	for part := range strings.SplitSeq(rest, ";") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(part), "charset="); ok {
			charset = strings.Trim(value, `"' `)
		}
	}
	return strings.TrimSpace(media), charset
}

// Reader reads an archive, decompressed, record by record.
type Reader struct {
	r    *bufio.Reader
	body *body
}

// body is what a record has left. Where the archive ends before, so does the reading, with an error.
type body struct {
	r    io.Reader
	left int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); err == io.EOF && b.left > 0 {
		err = cutOff()
	}
	return n, err
}

// NewReader reads from r.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, 1<<16)} }

var (
	errNoRecord = errors.New("no WARC record begins here: the archive is damaged")
	errHeader   = fmt.Errorf("a header of more than %d bytes: the archive is damaged", headerMost)
)

// Next returns the next record, or io.EOF.
func (a *Reader) Next() (*Record, error) {
	if a.body != nil {
		if _, err := io.Copy(io.Discard, a.body); err != nil {
			return nil, err
		}
	}
	left := headerMost
	var first string
	for first == "" { // behind a record there are two empty lines, behind the last one perhaps more
		line, err := readLine(a.r, &left)
		if err == io.EOF && line == "" {
			return nil, io.EOF
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
		first = line
	}
	if !strings.HasPrefix(first, Magic) {
		return nil, errNoRecord
	}
	h, err := readHeader(a.r, &left)
	if err != nil {
		return nil, err
	}
	length, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil || length < 0 {
		return nil, fmt.Errorf("a record has the length %.40q: the archive is damaged", h.Get("Content-Length"))
	}
	a.body = &body{a.r, length}
	return &Record{Header: h, Body: a.body}, nil
}

func cutOff() error { return fmt.Errorf("a record is cut off: %w", io.ErrUnexpectedEOF) }

// readLine returns a line without its end; left is what headers may still take.
func readLine(r *bufio.Reader, left *int) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if *left -= len(part); *left < 0 {
			return "", errHeader
		}
		line = append(line, part...)
		if err == bufio.ErrBufferFull {
			continue
		}
		return strings.TrimRight(string(line), "\r\n"), err
	}
}

// readHeader reads fields up to an empty line.
func readHeader(r *bufio.Reader, left *int) (Header, error) {
	h := Header{}
	last := ""
	for {
		line, err := readLine(r, left)
		if err == io.EOF {
			return nil, cutOff()
		}
		if err != nil {
			return nil, err
		}
		if line == "" {
			return h, nil
		}
		if line[0] == ' ' || line[0] == '\t' { // goes on with the field before
			if last != "" {
				h[last] += " " + strings.TrimSpace(line)
			}
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if last = strings.ToLower(strings.TrimSpace(name)); !ok || h[last] != "" {
			last = ""
			continue
		}
		h[last] = strings.TrimSpace(value)
	}
}

// Response reads the header of the HTTP response that a record's body is, and returns what it holds: in one piece, and not compressed. A coding that is not
// read is an error.
func Response(body io.Reader) (Header, io.Reader, error) {
	r, left := bufio.NewReader(body), headerMost
	status, err := readLine(r, &left)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	if !strings.HasPrefix(status, "HTTP/") {
		return nil, nil, errors.New("no HTTP response")
	}
	h, err := readHeader(r, &left)
	if err != nil {
		return nil, nil, err
	}
	content := io.Reader(r)
	if strings.Contains(strings.ToLower(h.Get("Transfer-Encoding")), "chunked") && chunked(r) {
		content = httputil.NewChunkedReader(r)
	}
	switch coding := strings.ToLower(h.Get("Content-Encoding")); coding {
	case "", "identity":
		return h, content, nil
	case "gzip", "x-gzip":
		unpacked := bufio.NewReader(content)
		if head, _ := unpacked.Peek(2); string(head) != "\x1f\x8b" { // as some archives keep it: unpacked, with the header of before
			return h, unpacked, nil
		}
		content, err = gzip.NewReader(unpacked)
		return h, content, err
	default:
		return nil, nil, fmt.Errorf("an HTTP response in the coding %.40q", coding)
	}
}

// chunked says whether content begins with the length of a chunk: some archives keep it in one piece, with the header of before.
func chunked(r *bufio.Reader) bool {
	head, _ := r.Peek(18)
	line, _, ok := strings.Cut(string(head), "\n")
	digits, _, _ := strings.Cut(strings.TrimSpace(line), ";")
	_, err := strconv.ParseUint(strings.TrimSpace(digits), 16, 63)
	return ok && err == nil
}
