package corpus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"loaderd/internal/warc"
)

// errHTML says what is done with pages.
var errHTML = errors.New("HTML, of which no text is made here: take the archive's WET files, or make text of it before")

// warc yields a document a record that holds text: conversions (as in WET files), and responses and resources of a text type. Records of other kinds (requests,
// metadata) are no documents.
func (in *Input) warc(s source, r io.Reader, yield yielder) bool {
	archive := warc.NewReader(r)
	for number := int64(1); ; number++ {
		record, err := archive.Next()
		if err == io.EOF {
			return true
		}
		if err != nil {
			return yield(Document{}, fmt.Errorf("read %s: record %d: %w", s.origin, number, err)) && false
		}
		if !slices.Contains([]string{"conversion", "response", "resource"}, record.Type()) {
			continue
		}
		d, err := in.options.warcDocument(record)
		more := false
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return yield(Document{}, fmt.Errorf("read %s: record %d: %w", s.origin, number, err)) && false
		case err != nil:
			more = s.skip(yield, number, err)
		default:
			more = s.give(yield, d)
		}
		if !more {
			return false
		}
	}
}

// warcDocument is the document of a record. Its error is a *badRecord, or one of reading.
func (o Options) warcDocument(r *warc.Record) (d Document, err error) {
	contentType, content := r.Get("Content-Type"), r.Body
	if r.Type() == "response" {
		if media, _ := warc.Media(contentType); media != "application/http" {
			return d, &badRecord{Media, fmt.Errorf("a response of %.40q, not of HTTP", media)}
		}
		var h warc.Header
		if h, content, err = warc.Response(content); err != nil {
			return d, bad("%w", err)
		}
		contentType = h.Get("Content-Type")
	}
	media, charset := warc.Media(contentType)
	switch {
	case media == "text/html" || media == "application/xhtml+xml":
		return d, &badRecord{HTML, errHTML}
	case !strings.HasPrefix(media, "text/"):
		return d, &badRecord{Media, fmt.Errorf("%.40q is no text", media)}
	}
	if d.Data, err = io.ReadAll(io.LimitReader(content, o.MaxDocument+1)); err != nil {
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
	return d, o.checkID(d.ID)
}
