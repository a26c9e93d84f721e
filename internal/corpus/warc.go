package corpus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"loaderd/internal/corpus/compression"
	"loaderd/internal/warc"
)

// errHTML says what is done with pages.
var errHTML = errors.New("HTML, of which no text is made here: take the archive's WET files, or make text of it before")

// warc yields a document a record that holds text: conversions (as in WET files), and responses and resources of a text type. Records of other kinds (requests,
// metadata) are no documents. Damaged parts are left out, and the reading continues at the next record, or at the next member of gzip data.
func (in *Input) warc(s source, file *compression.Reader, r io.Reader, yield yielder) bool {
	archive := warc.NewReader(r)
	number, more := int64(1), true
	damaged := func(err error) { more = more && s.skip(yield, number, &badRecord{Damaged, err}) }
	var from, to int64 // of the last damage of gzip data
	file.OnDamage(func(err error, begin, end int64) {
		from, to = begin, end
		damaged(err)
	})
	for ; more; number++ {
		d, problem, err := in.options.nextWARC(archive)
		var passed *warc.DamageError
		switch {
		case err == io.EOF:
			return more
		case errors.As(err, &passed):
			damaged(err)
			continue
		case err != nil:
			return yield(Document{}, fmt.Errorf("read %s: record %d: %w", s.origin, number, err)) && false
		case d.offset < to && archive.Offset() > from:
			damaged(errors.New("the record lies in damaged gzip data"))
			continue
		case problem != nil:
			more = more && s.skip(yield, number, problem)
		case d.Data != nil:
			more = more && s.give(yield, d.Document)
		}
		if d.damage != nil {
			damaged(d.damage)
		}
	}
	return false
}

// warcRecord is the document of a record, without data for a record that has none.
type warcRecord struct {
	Document
	offset int64 // of the record
	damage error // that was repaired
}

// nextWARC reads a record. problem is why one that should have a document has none.
func (o Options) nextWARC(archive *warc.Reader) (d warcRecord, problem, err error) {
	record, err := archive.Next()
	if err != nil {
		return d, nil, err
	}
	d.offset, d.damage = record.Offset, record.Damage
	if slices.Contains([]string{"conversion", "response", "resource"}, record.Type()) {
		d.Document, problem = o.warcDocument(record)
	}
	return d, problem, archive.End() // only then its length is known to be right
}

// warcDocument is the document of a record. Its error is a *badRecord, or one of reading.
func (o Options) warcDocument(r *warc.Record) (d Document, err error) {
	contentType, content := r.Get("Content-Type"), func() (io.Reader, error) { return r.Body, nil }
	if r.Type() == "response" {
		if media, _ := warc.Media(contentType); media != "application/http" {
			return d, &badRecord{Media, fmt.Errorf("a response of %.40q, not of HTTP", media)}
		}
		h, body, err := warc.Response(r.Body)
		if err != nil {
			return d, bad("%w", err)
		}
		contentType = h.Get("Content-Type")
		content = func() (io.Reader, error) { return warc.Content(h, body) } // which pages that are left out do not need
	}
	media, charset := warc.Media(contentType)
	switch {
	case media == "text/html" || media == "application/xhtml+xml":
		return d, &badRecord{HTML, errHTML}
	case !strings.HasPrefix(media, "text/"):
		return d, &badRecord{Media, fmt.Errorf("%.40q is no text", media)}
	}
	decoded, err := content()
	if errors.Is(err, warc.ErrCoding) {
		return d, &badRecord{Encoding, err}
	}
	if err == nil {
		d.Data, err = io.ReadAll(io.LimitReader(decoded, o.MaxDocument+1))
	}
	if err != nil {
		return Document{}, bad("%w", err)
	}
	switch {
	case int64(len(d.Data)) > o.MaxDocument:
		return Document{}, &badRecord{TooLarge, fmt.Errorf("document has more than %d bytes", o.MaxDocument)}
	case !utf8.Valid(d.Data):
		return Document{}, &badRecord{Encoding, fmt.Errorf("a text that is not UTF-8 (charset %.40q)", charset)}
	}
	if d.Meta, err = o.metaOf(func(column string) (json.RawMessage, error) {
		if value := r.Get(column); value != "" {
			return marshal(value), nil
		}
		return nil, nil
	}); err != nil {
		return Document{}, err
	}
	d.Label, d.Path = short(r.Get("WARC-Record-ID")), short(r.Get("WARC-Target-URI"))
	if o.IDField == "" {
		return d, nil
	}
	if d.ID = r.Get(o.IDField); d.ID == "" {
		return Document{}, bad("no field %q", o.IDField)
	}
	return d, o.checkID(len(d.ID))
}
