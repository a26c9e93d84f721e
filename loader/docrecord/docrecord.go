// Package docrecord encodes documents, for the token store and for other daemons of a run.
package docrecord

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"loaderd/loader/document"
	"loaderd/loader/filter"
	"loaderd/loader/plan"
	"loaderd/packonline/similarity"
)

// An encoded document. Numbers are unsigned varints unless another type is given.
//
//	stored   when the stream stored it, i64 in nanoseconds since 1970
//	id       u64
//	parts    bits of the parts that follow
//	tokens   bytes per id (2, 3 or 4), number of ids, the ids
//	...      the parts whose bits are set, in the order of the constants
const (
	hasLoss = 1 << iota
	hasWeight
	hasHint
	hasDocs
	hasColumns
	hasMeta
	hasParts
	hasTraceparent
	isCut
	hasAttributes
)

var errDamaged = errors.New("the document is damaged")

// Append appends a document and its header traceparent to b. The document must be used and not be traced.
func Append(b []byte, d *document.Document, traceparent string) []byte {
	w := encoder{b}
	w.fixed64(uint64(d.Stored))
	w.fixed64(d.ID)
	parts := uint64(0)
	for i, has := range [...]bool{d.Loss != nil, d.Weight != nil, d.Hint != nil, d.Docs != nil,
		d.Extra != nil && d.Extra.Columns != nil, d.Extra != nil && d.Extra.Meta != nil,
		d.Parts != nil, traceparent != "", d.Cut, d.Attributes != nil} {
		if has {
			parts |= 1 << i
		}
	}
	w.number(parts)
	w.tokens(d.Content)
	if d.Loss != nil {
		w.loss(d.Loss)
	}
	if d.Weight != nil {
		w.fixed32(math.Float32bits(*d.Weight))
	}
	if d.Hint != nil {
		w.hint(d.Hint)
	}
	if d.Docs != nil {
		w.docs(d.Docs)
	}
	if parts&hasColumns != 0 {
		w.columns(d.Extra.Columns)
	}
	if parts&hasMeta != 0 {
		w.meta(d.Extra.Meta)
	}
	if d.Parts != nil {
		w.parts(d.Parts)
	}
	if traceparent != "" {
		w.text(traceparent)
	}
	if d.Attributes != nil {
		w.attributes(d.Attributes)
	}
	return w.b
}

// Parse parses a document of Append. The document shares no memory with b.
func Parse(b []byte, sequence uint64) (d document.Document, traceparent string, err error) {
	r := decoder{b: b}
	d.Sequence, d.Stored, d.ID = sequence, int64(r.fixed64()), r.fixed64()
	parts := r.number()
	d.Cut = parts&isCut != 0
	r.tokens(&d.Content)
	if parts&hasLoss != 0 {
		d.Loss = r.loss()
	}
	if parts&hasWeight != 0 {
		w := math.Float32frombits(r.fixed32())
		d.Weight = &w
	}
	if parts&hasHint != 0 {
		d.Hint = r.hint()
	}
	if parts&hasDocs != 0 {
		d.Docs = r.docs()
	}
	if parts&(hasColumns|hasMeta) != 0 {
		d.Extra = &document.Extra{}
	}
	if parts&hasColumns != 0 {
		d.Extra.Columns = r.columns()
	}
	if parts&hasMeta != 0 {
		d.Extra.Meta = r.meta()
	}
	if parts&hasParts != 0 {
		d.Parts = r.parts()
	}
	if parts&hasTraceparent != 0 {
		traceparent = r.text()
	}
	if parts&hasAttributes != 0 {
		d.Attributes = r.attributes()
		if d.Extra != nil {
			d.Attributes.Meta = d.Extra.Meta
		}
	}
	shareMeta(&d)
	if r.failed || len(r.b) > 0 {
		return document.Document{}, "", errDamaged
	}
	return d, traceparent, nil
}

// encoder appends values to b.
type encoder struct{ b []byte }

func (w *encoder) fixed64(n uint64) { w.b = binary.LittleEndian.AppendUint64(w.b, n) }
func (w *encoder) fixed32(n uint32) { w.b = binary.LittleEndian.AppendUint32(w.b, n) }
func (w *encoder) number(n uint64)  { w.b = binary.AppendUvarint(w.b, n) }
func (w *encoder) text(s string) {
	w.number(uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *encoder) flag(b bool) {
	if b {
		w.b = append(w.b, 1)
	} else {
		w.b = append(w.b, 0)
	}
}

// tokens appends the ids of a document in as few bytes each as all of them fit.
func (w *encoder) tokens(c document.Content) {
	if c.NarrowTokens != nil {
		w.number(2)
		w.number(uint64(len(c.NarrowTokens)))
		w.b = append(w.b, arrow.Uint16Traits.CastToBytes(c.NarrowTokens)...) // all platforms are little-endian
		return
	}
	bits := uint32(0)
	for _, id := range c.Tokens {
		bits |= uint32(id)
	}
	width := 3
	if bits >= 1<<24 {
		width = 4
	}
	w.number(uint64(width))
	w.number(uint64(len(c.Tokens)))
	at, n := len(w.b), width*len(c.Tokens)
	w.b = slices.Grow(w.b, n+1)[:at+n+1] // an id of three bytes is written as four
	for i, id := range c.Tokens {
		binary.LittleEndian.PutUint32(w.b[at+width*i:], uint32(id))
	}
	w.b = w.b[:at+n]
}

func (w *encoder) loss(runs plan.LossRuns) {
	w.number(uint64(len(runs)))
	for _, n := range runs {
		w.number(uint64(n))
	}
}

func (w *encoder) hint(h *similarity.Hint) {
	w.number(uint64(h.Source))
	w.number(uint64(len(h.Terms)))
	for _, term := range h.Terms {
		w.fixed32(term)
	}
	w.number(uint64(len(h.Path)))
	for _, p := range h.Path {
		w.fixed64(p)
	}
	w.number(uint64(len(h.Vector)))
	for _, v := range h.Vector {
		w.b = append(w.b, byte(v))
	}
}

func (w *encoder) docs(all []document.Doc) {
	w.number(uint64(len(all)))
	for _, d := range all {
		w.number(uint64(d.Start))
		w.flag(d.Weight != nil)
		if d.Weight != nil {
			w.fixed32(math.Float32bits(*d.Weight))
		}
	}
}

func (w *encoder) columns(all [][]byte) {
	w.number(uint64(len(all)))
	for _, values := range all {
		w.flag(values != nil)
		if values != nil {
			w.number(uint64(len(values)))
			w.b = append(w.b, values...)
		}
	}
}

// Types of values in the metadata of a document.
const (
	metaNone = iota
	metaString
	metaInt64
	metaFloat64
)

func (w *encoder) meta(all []any) {
	w.number(uint64(len(all)))
	for _, value := range all {
		switch v := value.(type) {
		case string:
			w.number(metaString)
			w.text(v)
		case int64:
			w.number(metaInt64)
			w.fixed64(uint64(v))
		case float64:
			w.number(metaFloat64)
			w.fixed64(math.Float64bits(v))
		default:
			w.number(metaNone)
		}
	}
}

func (w *encoder) parts(all []plan.Part) {
	w.number(uint64(len(all)))
	for _, p := range all {
		w.fixed64(p.ID)
		w.number(uint64(p.Length))
		w.text(string(p.Skip))
		w.flag(p.Loss != nil)
		if p.Loss != nil {
			w.loss(p.Loss)
		}
		w.flag(p.Cut)
		w.number(uint64(p.SplitIndex))
		w.flag(p.Hint != nil)
		if p.Hint != nil {
			w.hint(p.Hint)
		}
		w.flag(p.Attributes != nil)
		if p.Attributes != nil {
			w.attributes(p.Attributes)
		}
	}
}

// attributes appends the inputs of filters except the metadata, which the document has.
func (w *encoder) attributes(a *filter.Attributes) {
	w.text(a.ID)
	w.text(a.Path)
	w.number(uint64(a.Bytes))
}

// decoder reads values from the front of b. After a failure it returns zero values.
type decoder struct {
	b      []byte
	failed bool
}

// take returns the next n bytes.
func (r *decoder) take(n int) []byte {
	if r.failed || n < 0 || n > len(r.b) {
		r.failed = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *decoder) fixed64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *decoder) fixed32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *decoder) number() uint64 {
	n, size := binary.Uvarint(r.b)
	if r.failed || size <= 0 {
		r.failed = true
		return 0
	}
	r.b = r.b[size:]
	return n
}

// count returns a number of values of at least size bytes each.
func (r *decoder) count(size int) int {
	n := r.number()
	if n > uint64(len(r.b)/size) {
		r.failed = true
		return 0
	}
	return int(n)
}

// integer returns a number of at most math.MaxInt32.
func (r *decoder) integer() int32 {
	n := r.number()
	if n > math.MaxInt32 {
		r.failed = true
		return 0
	}
	return int32(n)
}

func (r *decoder) text() string { return string(r.take(r.count(1))) }

func (r *decoder) flag() bool {
	b := r.take(1)
	return b != nil && b[0] != 0
}

func (r *decoder) tokens(c *document.Content) {
	width := int(r.number())
	if width < 2 || width > 4 {
		r.failed = true
		return
	}
	n := r.count(width)
	b := r.take(n * width)
	if r.failed {
		return
	}
	if width == 2 {
		ids, from := document.NarrowPool.Get(n)
		copy(arrow.Uint16Traits.CastToBytes(ids), b)
		c.NarrowTokens, c.Reusable = ids, from != nil
		return
	}
	c.Tokens = make([]int32, n)
	for i := range c.Tokens {
		x := b[i*width:]
		id := int32(x[0]) | int32(x[1])<<8 | int32(x[2])<<16
		if width == 4 {
			id |= int32(x[3]) << 24
		}
		c.Tokens[i] = id
	}
}

func (r *decoder) loss() plan.LossRuns {
	runs := make(plan.LossRuns, r.count(1))
	for i := range runs {
		runs[i] = r.integer()
	}
	return runs
}

func (r *decoder) hint() *similarity.Hint {
	h := &similarity.Hint{Source: uint32(r.number())}
	if n := r.count(4); n > 0 {
		h.Terms = make([]uint32, n)
		for i := range h.Terms {
			h.Terms[i] = r.fixed32()
		}
	}
	if n := r.count(8); n > 0 {
		h.Path = make([]uint64, n)
		for i := range h.Path {
			h.Path[i] = r.fixed64()
		}
	}
	if n := r.count(1); n > 0 {
		h.Vector = make([]int8, n)
		for i, v := range r.take(n) {
			h.Vector[i] = int8(v)
		}
	}
	return h
}

func (r *decoder) docs() []document.Doc {
	all := make([]document.Doc, r.count(2))
	for i := range all {
		all[i].Start = r.integer()
		if r.flag() {
			w := math.Float32frombits(r.fixed32())
			all[i].Weight = &w
		}
	}
	return all
}

func (r *decoder) columns() [][]byte {
	all := make([][]byte, r.count(1))
	for i := range all {
		if r.flag() {
			all[i] = append([]byte{}, r.take(r.count(1))...)
		}
	}
	return all
}

func (r *decoder) meta() []any {
	all := make([]any, r.count(1))
	for i := range all {
		switch r.number() {
		case metaString:
			all[i] = r.text()
		case metaInt64:
			all[i] = int64(r.fixed64())
		case metaFloat64:
			all[i] = math.Float64frombits(r.fixed64())
		}
	}
	return all
}

func (r *decoder) parts() []plan.Part {
	all := make([]plan.Part, r.count(15))
	for i := range all {
		p := &all[i]
		p.ID, p.Length, p.Skip = r.fixed64(), int(r.integer()), plan.Skip(r.text())
		if r.flag() {
			p.Loss = r.loss()
		}
		p.Cut, p.SplitIndex = r.flag(), int(r.integer())
		if r.flag() {
			p.Hint = r.hint()
		}
		if r.flag() {
			p.Attributes = r.attributes()
		}
	}
	return all
}

func (r *decoder) attributes() *filter.Attributes {
	return &filter.Attributes{ID: r.text(), Path: r.text(), Bytes: int(r.number())}
}

// shareMeta gives the documents of a message their metadata.
func shareMeta(d *document.Document) {
	if d.Extra == nil || len(d.Parts) == 0 || len(d.Extra.Meta)%len(d.Parts) != 0 {
		return
	}
	width := len(d.Extra.Meta) / len(d.Parts)
	for i := range d.Parts {
		own := d.Extra.Meta[i*width : (i+1)*width : (i+1)*width]
		has := slices.ContainsFunc(own, func(value any) bool { return value != nil })
		if a := d.Parts[i].Attributes; a != nil && has {
			a.Meta = own
		}
	}
}
