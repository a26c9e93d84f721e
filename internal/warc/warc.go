// Package warc reads the records of web archives (ISO 28500, versions 0.17 to 1.1). The libraries for Go load whole
// records or spool them to disk; this one streams and bounds the size of a record's header.
package warc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"regexp"
	"strconv"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Magic begins every record.
const Magic = "WARC/"

// headerMost bounds the header of a record, and of the HTTP response within.
const headerMost = 1 << 20

// Header has fields by their names in lower case. If a field occurs several times, the first one is used.
type Header map[string]string

// Get returns a field by its case-insensitive name; empty for none.
func (h Header) Get(name string) string { return h[strings.ToLower(name)] }

// Record is a record of an archive. Body is valid until the next record.
type Record struct {
	Header
	Body   io.Reader
	Offset int64 // offset of its header in the archive
	// Damage reports that the record's length is wrong, and that Body has the data up to the next record instead. It is
	// nil for a correct record.
	Damage error
}

// DamageError is a skipped part of an archive. The next call of Reader.Next continues after it.
type DamageError struct{ err error }

func (e *DamageError) Error() string { return e.err.Error() }
func (e *DamageError) Unwrap() error { return e.err }

func damage(format string, args ...any) error { return &DamageError{fmt.Errorf(format, args...)} }

// Type returns the type of the record: response, conversion, request, and others.
func (r *Record) Type() string { return strings.ToLower(r.Get("WARC-Type")) }

// Media returns a Content-Type without its parameters, in lower case, and its charset if it names one.
func Media(contentType string) (media, charset string) {
	media, rest, _ := strings.Cut(strings.ToLower(contentType), ";")
	for part := range strings.SplitSeq(rest, ";") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(part), "charset="); ok {
			charset = strings.Trim(value, `"' `)
		}
	}
	return strings.TrimSpace(media), charset
}

// Reader reads a decompressed archive, record by record. If a length is wrong, or other data is between records, it
// continues at the next header of a record, and returns a *DamageError for the part that it skips.
type Reader struct {
	r       *bufio.Reader
	read    *counted
	body    *body
	records int
	lost    bool // the position is within a record that was reported as damaged
}

// body is the unread part of a record. If the archive ends within it, Read returns an error.
type body struct {
	r       io.Reader
	left    int64
	checked bool // a record, or the end, follows
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

const (
	// window is how far a reader looks ahead. The length of a record within the window is compared with the position of
	// the next record before the record is returned.
	window = 1 << 20
	// behind is how many bytes after a record are inspected.
	behind = 64
)

// NewReader returns a reader of the archive r.
func NewReader(r io.Reader) *Reader {
	read := &counted{r: r}
	return &Reader{r: bufio.NewReaderSize(read, window), read: read}
}

// Offset returns the reader's position in the archive, in bytes.
func (a *Reader) Offset() int64 { return a.read.n - int64(a.r.Buffered()) }

// counted counts the bytes read.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

var (
	errNoRecord = errors.New("no WARC record begins here: it is not a web archive")
	errHeader   = fmt.Errorf("a header of more than %d bytes", headerMost)
	errLength   = errors.New("want a number of bytes")
)

// Next returns the next record, or io.EOF. A *DamageError is a skipped part.
func (a *Reader) Next() (*Record, error) {
	if err := a.End(); err != nil {
		return nil, err
	}
	passed, err := a.seek()
	if passed > 0 && !a.lost {
		return nil, damage("%d bytes behind a record are not part of one", passed)
	}
	if err != nil {
		return nil, err
	}
	a.lost = false
	a.records++
	offset := a.Offset()
	left := headerMost
	if _, err := readLine(a.r, &left); err != nil && err != io.EOF { // the version
		return nil, a.lose(err)
	}
	h, err := readHeader(a.r, &left)
	if err != nil {
		return nil, a.lose(err)
	}
	length, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil || length < 0 {
		return nil, a.lose(fmt.Errorf("a record has the length %.40q: %w", h.Get("Content-Length"), errLength))
	}
	return a.record(h, offset, length)
}

// lose returns the error of a header. It is damage unless it is a read error.
func (a *Reader) lose(err error) error {
	if errors.Is(err, errHeader) || errors.Is(err, errLength) {
		a.lost = true
		return &DamageError{err}
	}
	return err
}

// End skips the rest of the current record. A *DamageError means that no record follows where its length ends, so the
// data that was read is not its content.
func (a *Reader) End() error {
	b := a.body
	if b == nil {
		return nil
	}
	a.body = nil
	if _, err := io.Copy(io.Discard, b); err != nil {
		return err
	}
	if b.checked {
		return nil
	}
	rest, err := a.r.Peek(behind)
	if err != nil && err != io.EOF {
		return err
	}
	if !endsRecord(rest, err == io.EOF) {
		a.lost = true
		return damage("no record begins where the previous one ends")
	}
	return nil
}

// record returns a record whose header was read. If the record is within the window, it first compares the record's
// length with the position of the next one.
func (a *Reader) record(h Header, offset, length int64) (*Record, error) {
	a.body = &body{r: a.r, left: length}
	r := &Record{Header: h, Body: a.body, Offset: offset}
	if length > window-behind {
		return r, nil
	}
	ahead, err := a.r.Peek(int(length) + behind)
	if err != nil && err != io.EOF {
		return nil, err
	}
	a.body.checked = true
	whole := len(ahead) >= int(length)
	if whole && endsRecord(ahead[length:], err == io.EOF) {
		return r, nil
	}
	if ahead, err = a.r.Peek(window); err != nil && err != io.EOF {
		return nil, err
	}
	next := headerAt(ahead)
	switch {
	case next < 0 && !whole:
		a.body.checked = false // its end is missing
		return r, nil
	case next < 0 && err == io.EOF:
		next = len(ahead)
	case next < 0, int64(next) < length:
		a.body, a.lost = nil, true
		return nil, damage("no record begins where a record of %d bytes ends", length)
	}
	a.body.left = int64(len(withoutEnd(ahead[:next])))
	r.Damage = fmt.Errorf("its length is %d, and the next record follows %d bytes: they are read", length, a.body.left)
	return r, nil
}

// endsRecord reports whether a record is followed by the correct data: two line ends, or padding up to the next
// record or the end of the archive.
func endsRecord(rest []byte, last bool) bool {
	if bytes.HasPrefix(rest, []byte("\r\n\r\n")) || bytes.HasPrefix(rest, []byte("\n\n")) {
		return true
	}
	rest = bytes.TrimLeft(rest, "\r\n\x00")
	return bytes.HasPrefix(rest, []byte(Magic)) || len(rest) == 0 && last
}

// withoutEnd removes the two line ends that separate records.
func withoutEnd(content []byte) []byte {
	content = bytes.TrimRight(content, "\x00")
	for range 2 {
		content = bytes.TrimSuffix(bytes.TrimSuffix(content, []byte("\n")), []byte("\r"))
	}
	return content
}

// header matches the beginning of a record in a search: the version and a first field.
var header = regexp.MustCompile(`WARC/\d\.\d+[ \t]*\r?\n(?i:WARC|Content)-[A-Za-z-]+[ \t]*:`)

// headerAt returns the position of the first record in data, -1 for none.
func headerAt(data []byte) int {
	if at := header.FindIndex(data); at != nil {
		return at[0]
	}
	return -1
}

// seek advances to the next header of a record. It returns how many skipped bytes were not line ends, and io.EOF if
// no header follows.
func (a *Reader) seek() (passed int64, err error) {
	const overlap = 128 // longer than any match of header
	for {
		head, err := a.r.Peek(len(Magic))
		switch {
		case len(head) == 0:
			return passed, err
		case string(head) == Magic && passed == 0 && !a.lost:
			return 0, nil
		case passed == 0 && (head[0] == '\r' || head[0] == '\n'):
			_, _ = a.r.Discard(1) // already peeked
			continue
		case a.records == 0:
			return 0, errNoRecord
		}
		ahead, err := a.r.Peek(window)
		at := headerAt(ahead)
		if at == 0 {
			return passed, nil
		}
		if err != nil && err != io.EOF {
			return passed, err
		}
		if at < 0 {
			at = max(len(ahead)-overlap, 1)
			if err == io.EOF {
				at = len(ahead)
			}
		}
		passed += int64(len(bytes.Trim(ahead[:at], "\r\n")))
		_, _ = a.r.Discard(at) // already peeked
	}
}

func cutOff() error { return fmt.Errorf("a record is cut off: %w", io.ErrUnexpectedEOF) }

// readLine returns a line without its end; left is the remaining limit for headers.
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
		if line[0] == ' ' || line[0] == '\t' { // continues the previous field
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

// Response reads the header of the HTTP response in a record's body, and returns the rest of the body. Content
// decodes that.
func Response(body io.Reader) (Header, *bufio.Reader, error) {
	r, left := bufio.NewReader(body), headerMost
	status, err := readLine(r, &left)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	if !strings.HasPrefix(status, "HTTP/") {
		return nil, nil, errors.New("no HTTP response")
	}
	h, err := readHeader(r, &left)
	return h, r, err
}

// ErrCoding is the error for content in an unsupported coding.
var ErrCoding = errors.New("the content has a coding that is not read")

// contentWindow bounds the memory of a decoder of content, as RFC 9659 does.
const contentWindow = 8 << 20

// Content returns the decoded content of an HTTP response with a header, without chunks and compression. It returns
// ErrCoding for an unsupported coding.
func Content(h Header, r *bufio.Reader) (io.Reader, error) {
	content := r
	if strings.Contains(strings.ToLower(h.Get("Transfer-Encoding")), "chunked") && chunked(r) {
		content = bufio.NewReader(httputil.NewChunkedReader(r))
	}
	switch coding := strings.ToLower(h.Get("Content-Encoding")); coding {
	case "", "identity":
		return content, nil
	case "gzip", "x-gzip":
		// Some archives store it decompressed, with the original header.
		if head, _ := content.Peek(2); string(head) != "\x1f\x8b" {
			return content, nil
		}
		return gzip.NewReader(content)
	case "deflate":
		if head, _ := content.Peek(2); len(head) == 2 && head[0]&0x0f == 8 && (int(head[0])<<8+int(head[1]))%31 == 0 {
			return zlib.NewReader(content)
		}
		return flate.NewReader(content), nil
	case "br":
		return brotli.NewReader(content), nil
	case "zstd":
		return zstd.NewReader(content, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(contentWindow))
	default:
		return nil, fmt.Errorf("%w: %.40q", ErrCoding, coding)
	}
}

// chunked reports whether content starts with the length of a chunk. Some archives store it without chunks, with the
// original header.
func chunked(r *bufio.Reader) bool {
	head, _ := r.Peek(18)
	line, _, ok := strings.Cut(string(head), "\n")
	digits, _, _ := strings.Cut(strings.TrimSpace(line), ";")
	_, err := strconv.ParseUint(strings.TrimSpace(digits), 16, 63)
	return ok && err == nil
}
