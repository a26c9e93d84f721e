package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"loaderd/internal/corpus/compression"
	"loaderd/internal/corpus/record"
	"loaderd/internal/warc"
)

// errHTML is the error for an HTML page.
var errHTML = errors.New("HTML, which is not converted to text: use the archive's WET files, or convert it first")

// WARC reads documents of a web archive.
type WARC struct {
	File    record.File
	Columns record.Columns
	// Start is how many records precede the first one that is read.
	Start int64
	// OnEntry is called before each record from which a reader can start, with the entries that were yielded, the offset
	// in the file, and the number of records before it. nil: it is not called.
	OnEntry func(entries, offset, records int64)
}

// Documents yields a document per record with text: conversions (as in WET files), and responses and resources of
// a text type. Records of other kinds (requests, metadata) are not documents. Damaged parts are skipped, and reading
// continues at the next record, or at the next member of gzip data. r reads the content of file. Documents returns
// whether the iteration continues.
func (w WARC) Documents(file *compression.Reader, r io.Reader, yield record.Yield) bool {
	archive := warc.NewReader(r)
	number, entries, more := w.Start+1, int64(0), true
	skip := func(err error) {
		entries++
		more = more && w.File.Skip(yield, number, err)
	}
	damaged := func(err error) { skip(record.WithReason(record.Damaged, err)) }
	var from, to int64 // range of the last damage of gzip data
	file.OnDamage(func(err error, begin, end int64) {
		from, to = begin, end
		damaged(err)
	})
	if w.OnEntry != nil {
		file.TrackMembers()
	}
	for ; more; number++ {
		d, problem, err := readWARC(w.Columns, archive)
		if err == nil && w.OnEntry != nil && d.offset >= to { // damage that is read ahead was yielded already
			if place, ok := startOf(file, d.offset); ok {
				w.OnEntry(entries, place, number-1)
			}
		}
		var passed *warc.DamageError
		switch {
		case err == io.EOF:
			return more
		case errors.As(err, &passed):
			damaged(err)
			continue
		case err != nil:
			return w.File.Fail(yield, fmt.Errorf("record %d: %w", number, err))
		case d.offset < to && archive.Offset() > from:
			damaged(errors.New("the record is in damaged gzip data"))
			continue
		case problem != nil:
			skip(problem)
		case d.Data != nil:
			entries++
			more = more && w.File.Emit(yield, d.Document)
		}
		if d.damage != nil {
			damaged(d.damage)
		}
	}
	return false
}

// startOf returns the offset in a file at which a reader of the content from an offset on can start. ok is false if
// there is none.
func startOf(file *compression.Reader, offset int64) (place int64, ok bool) {
	if file.IsRaw() {
		return offset, true
	}
	return file.MemberAt(offset)
}

// warcRecord is the document of a record. It has no data if the record has no document.
type warcRecord struct {
	record.Document
	offset int64 // of the record
	damage error // damage that was repaired
}

// readWARC reads a record. problem is why a record that should have a document has none.
func readWARC(cols record.Columns, archive *warc.Reader) (d warcRecord, problem, err error) {
	found, err := archive.Next()
	if err != nil {
		return d, nil, err
	}
	d.offset, d.damage = found.Offset, found.Damage
	if slices.Contains([]string{"conversion", "response", "resource"}, found.Type()) {
		d.Document, problem = warcDocument(cols, found)
	}
	return d, problem, archive.End() // verifies the record's length
}

// warcDocument returns the document of a record. Its error has a reason, or is a read error.
func warcDocument(cols record.Columns, r *warc.Record) (d record.Document, err error) {
	contentType, content := r.Get("Content-Type"), func() (io.Reader, error) { return r.Body, nil }
	if r.Type() == "response" {
		if media, _ := warc.Media(contentType); media != "application/http" {
			return d, record.WithReason(record.Media, fmt.Errorf("a response of %.40q, want HTTP", media))
		}
		h, body, err := warc.Response(r.Body)
		if err != nil {
			return d, record.Errorf("%w", err)
		}
		contentType = h.Get("Content-Type")
		content = func() (io.Reader, error) { return warc.Content(h, body) } // not called for skipped pages
	}
	media, charset := warc.Media(contentType)
	switch {
	case media == "text/html" || media == "application/xhtml+xml":
		return d, record.WithReason(record.HTML, errHTML)
	case !strings.HasPrefix(media, "text/"):
		return d, record.WithReason(record.Media, fmt.Errorf("%.40q is no text", media))
	}
	decoded, err := content()
	if errors.Is(err, warc.ErrCoding) {
		return d, record.WithReason(record.Encoding, err)
	}
	if err == nil {
		d.Data, err = io.ReadAll(io.LimitReader(decoded, cols.MaxDocument+1))
	}
	if err != nil {
		return record.Document{}, record.Errorf("%w", err)
	}
	switch {
	case int64(len(d.Data)) > cols.MaxDocument:
		err := fmt.Errorf("document has more than %d bytes", cols.MaxDocument)
		return record.Document{}, record.WithReason(record.TooLarge, err)
	case !utf8.Valid(d.Data):
		err := fmt.Errorf("a text that is not UTF-8 (charset %.40q)", charset)
		return record.Document{}, record.WithReason(record.Encoding, err)
	}
	if d.Meta, err = cols.MetaJSON(func(column string) (json.RawMessage, error) {
		if value := r.Get(column); value != "" {
			return record.MarshalText(value), nil
		}
		return nil, nil
	}); err != nil {
		return record.Document{}, err
	}
	d.Label, d.Path = record.CleanLabel(r.Get("WARC-Record-ID")), record.CleanLabel(r.Get("WARC-Target-URI"))
	if cols.ID == "" {
		return d, nil
	}
	if d.ID = r.Get(cols.ID); d.ID == "" {
		return record.Document{}, record.Errorf("no field %q", cols.ID)
	}
	return d, cols.CheckID(len(d.ID))
}
