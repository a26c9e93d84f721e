package corpus

import (
	"bytes"
	"fmt"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"

	"loaderd/internal/corpus/record"
	"loaderd/internal/invalidutf8"
)

// FindEncoding returns an encoding by its name, as browsers do: latin1, windows-1252, shift_jis, gb18030, utf-16, ...
// The empty name is UTF-8.
func FindEncoding(name string) (encoding.Encoding, error) {
	if name == "" {
		return unicode.UTF8, nil
	}
	e, err := htmlindex.Get(name)
	if err != nil {
		return nil,
			fmt.Errorf("unknown encoding %q: want a name such as latin1, windows-1252, shift_jis, gb18030 or utf-16", name)
	}
	return e, nil
}

// encodingOf returns the encoding of text that starts with data, nil for UTF-8 and for data that is not text.
func (o Options) encodingOf(data []byte) encoding.Encoding {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM)
	}
	if o.Encoding == "" || (head{data: data}).magicFormat() != "" {
		return nil
	}
	e, err := FindEncoding(o.Encoding)
	if err != nil || e == unicode.UTF8 {
		return nil
	}
	return e
}

// toUTF8 converts texts to UTF-8: each invalid byte becomes U+FFFD and is counted. A text with too large a share of
// them is not a document.
func (in *Input) toUTF8(yield record.Yield) record.Yield {
	return func(d record.Document, err error) bool {
		if err != nil || d.Parts || in.Tokens() || in.currentFormat == Tokens {
			return yield(d, err)
		}
		bad := invalidutf8.Count(d.Data)
		if bad == 0 {
			return yield(d, nil)
		}
		if invalidutf8.Exceeds(bad, len(d.Data)) {
			reason := record.Invalid
			if in.folder && in.format == Text {
				reason = record.Encoding
			}
			err := fmt.Errorf("%d of %d bytes are not UTF-8, more than 1 in %d (--encoding names another encoding)",
				bad, len(d.Data), invalidutf8.Share)
			return yield(record.Document{}, &record.SkipError{
				Reason: reason, Path: d.Path, Origin: d.Origin, Err: err,
			})
		}
		d.ReplacedBytes = bad
		d.Data = replaceInvalid(d.Data)
		return yield(d, nil)
	}
}

// replaceInvalid replaces bytes that are not UTF-8 by U+FFFD, and a truncated character by one, as Python and
// browsers do.
func replaceInvalid(text []byte) []byte {
	out, err := unicode.UTF8.NewDecoder().Bytes(text)
	if err != nil {
		panic(err) // replacement cannot fail
	}
	return out
}

// Replacements counts the bytes of documents that were not UTF-8 and were replaced by U+FFFD. Its JSON is read by other
// programs.
type Replacements struct {
	Documents int64  `json:"documents"`
	Bytes     int64  `json:"bytes"`
	First     string `json:"first,omitempty"` // path of the first such document
}

// Add adds the count of a document.
func (r *Replacements) Add(d record.Document) {
	if d.ReplacedBytes == 0 {
		return
	}
	if r.Documents == 0 {
		r.First = d.Path
	}
	r.Documents++
	r.Bytes += int64(d.ReplacedBytes)
}
