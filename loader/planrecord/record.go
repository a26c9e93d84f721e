package planrecord

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"

	"loaderd/loader/internal/codec"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// FormatVersion is the version of the plan's records. docs/reference/plan.md describes them.
const FormatVersion = 1

// Kinds of records.
const (
	kindHeader     = 1  // first record
	kindStep       = 2  // a step, or a part of a step that exceeds a record
	kindMaskedStep = 3  // as kindStep, for a step with tokens without a loss: with their numbers and repeats
	kindFlush      = 4  // flush of the pool and the window
	kindCommit     = 5  // of a job
	kindEnd        = 6  // of the run
	kindLeave      = 7  // of a job
	kindTerm       = 8  // of a leader
	kindForeign    = 9  // marks a record that no daemon of the run wrote
	kindMix        = 10 // change of the mixture
	kindSealSource = 11 // end of a source
	kindRest       = 12 // pause of a source
	kindForkState  = 13 // part of the state at the start of a fork
	kindSeal       = 14 // request to end all sources: never in a plan
	kindSchedule   = 15 // change of the schedule of steps
	kindFilter     = 16 // change of a filter
	kindResize     = 17 // change of a job's world size
	kindLossStep   = 18 // as kindMaskedStep, for a run with shares of tokens with a loss: with their number by source
)

const (
	recordMagic    = "LP"
	recordOverhead = len(recordMagic) + 2 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is the first record of a plan.
type Header struct {
	Format    int    `json:"format"`
	Algorithm int    `json:"algorithm"`
	Run       string `json:"run"`
	// ID distinguishes the run from every other run of the same name. It has 32 random hexadecimal digits that are
	// set at the start of the run and kept by a repaired copy. The plan does not depend on it.
	ID          string `json:"id"`
	Fingerprint string `json:"fingerprint"`
	// Keyed reports whether the run was started with a plan key. Then every record needs a MAC of that key.
	Keyed bool `json:"keyed,omitempty"`
	// Sources are the streams of the run's initial sources, in the order of their numbers.
	Sources []plan.SourceBegin `json:"sources"`
	Config  runconfig.Config   `json:"config"`
	// Parent is the run that this one was forked from.
	Parent *Parent `json:"parent,omitempty"`
	// State is the planner's state at the start of a fork. Separate records after the header hold it: see ForkState.
	State []byte `json:"-"`
	// Repair identifies the damaged plan that this plan is a copy of.
	Repair *Repair `json:"repair,omitempty"`
}

// Repair is in the header of a plan that is a copy of the usable part of a damaged plan.
type Repair struct {
	PreviousNames []string `json:"was"`     // previous names of the run, the last one that of the damaged plan
	Records       uint64   `json:"records"` // number of records to copy: a copy with fewer is incomplete
	// steps of the damaged plan; they are planned again immediately, because a reader may have received them
	Steps uint64 `json:"steps"`
}

// Entry is the content of one record of a plan: a Header, StepPart, ForkState, control, Commit, Leave, Resize, End,
// Term or Foreign.
type Entry interface {
	// Kind returns the kind of its records; docs/reference/plan.md lists the kinds.
	Kind() byte
	// appendBody appends the encoding used in records and checkpoints. The body of a control determines its own length.
	appendBody(b []byte) []byte
}

// StepPart contains rows [First, First+len(Rows)) of a step of Total rows. It is part Part of Parts.
type StepPart struct {
	plan.Step
	Part, Parts, FirstRow, TotalRows int

	encodedRows []byte // the rows, if the part is about to be written
}

// Encode returns the record of an entry.
func Encode(e Entry) []byte { return encodeRecord(e.Kind(), e.appendBody(nil)) }

// encodeRecord returns the record of a body.
func encodeRecord(kind byte, body []byte) []byte {
	b := make([]byte, 0, len(body)+recordOverhead)
	b = append(b, recordMagic...)
	b = append(b, FormatVersion, kind)
	b = append(b, body...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// Infos returns the initial sources of a run, in the order of their numbers.
func (h Header) Infos() []plan.SourceInfo {
	out := make([]plan.SourceInfo, len(h.Sources))
	for i, s := range h.Sources {
		out[i] = plan.SourceInfo{SourceBegin: s, Config: h.Config.Sources[s.Name]}
		if h.Parent == nil {
			continue
		}
		x := h.Parent.Sources[i]
		if out[i].From = x.From; x.Config != nil {
			out[i].Config = *x.Config
		}
	}
	return out
}

// Kind implements Entry.
func (Header) Kind() byte { return kindHeader }

func (h Header) appendBody(b []byte) []byte {
	body, err := json.Marshal(h)
	if err != nil {
		panic(fmt.Sprintf("loader: marshal header: %v", err)) // only numbers, strings and lists of them
	}
	return append(b, body...)
}

// Kind implements Entry.
func (p StepPart) Kind() byte {
	switch {
	case p.SourceLossTokens != nil:
		return kindLossStep
	case p.Masked > 0:
		return kindMaskedStep
	}
	return kindStep
}

// IsStepKind reports whether records of a kind are parts of steps.
func IsStepKind(kind byte) bool {
	return kind == kindStep || kind == kindMaskedStep || kind == kindLossStep
}

func (p StepPart) appendBody(b []byte) []byte {
	for _, v := range []uint64{p.Index, uint64(p.Bucket), uint64(p.TotalRows), p.Cursor.Last(), p.LowWatermark.Next(),
		uint64(p.Part), uint64(p.Parts), uint64(p.FirstRow), uint64(len(p.Rows))} {
		b = binary.AppendUvarint(b, v)
	}
	b = p.appendPositions(b)
	if p.Masked > 0 || p.SourceLossTokens != nil {
		b = p.appendMasked(b)
	}
	if p.SourceLossTokens != nil {
		b = p.appendSourceLoss(b)
	}
	return append(b, p.encodedRows...)
}

// appendMasked writes the number of tokens of the whole step without a loss, and the number of its attention segments
// that begin with one. Then it writes the pieces of the part that begin with repeated tokens. It writes their number
// and, for each, its distance in rows from the one before (at first from the part's first row), its index in the row
// and its repeated tokens.
func (p *StepPart) appendMasked(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(p.Masked))
	b = binary.AppendUvarint(b, uint64(p.MaskedSegmentStarts))
	b = binary.AppendUvarint(b, uint64(len(p.Repeats)))
	row := p.FirstRow
	for _, r := range p.Repeats {
		b = binary.AppendUvarint(b, uint64(r.Row-row))
		b = binary.AppendUvarint(b, uint64(r.Piece))
		b = binary.AppendUvarint(b, uint64(r.Tokens))
		row = r.Row
	}
	return b
}

// appendSourceLoss writes the tokens of the whole step with a loss by source, in its first part, preceded by their
// number.
func (p *StepPart) appendSourceLoss(b []byte) []byte {
	tokens := p.SourceLossTokens
	if p.Part > 0 {
		tokens = nil
	}
	b = binary.AppendUvarint(b, uint64(len(tokens)))
	for _, n := range tokens {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// appendPositions writes the positions in the sources, in the first part of a step that has them. It writes their
// number and, of each, its epoch and the documents taken of that epoch.
func (p *StepPart) appendPositions(b []byte) []byte {
	places := p.SourcePositions
	if p.Part > 0 {
		places = nil
	}
	b = binary.AppendUvarint(b, uint64(len(places)))
	for _, x := range places {
		b = binary.AppendUvarint(b, x.Epoch)
		b = binary.AppendUvarint(b, x.Taken)
	}
	return b
}

// EncodeStep encodes a step as one record, or as several if it exceeds limit bytes.
func EncodeStep(s *plan.Step, limit int) ([][]byte, error) {
	prefix := (10 + 2*len(s.SourcePositions)) * binary.MaxVarintLen64
	if s.Masked > 0 || s.SourceLossTokens != nil {
		prefix += 3 * binary.MaxVarintLen64
	}
	if s.SourceLossTokens != nil {
		prefix += (1 + len(s.SourceLossTokens)) * binary.MaxVarintLen64
	}
	var parts []StepPart
	repeats := s.Repeats
	for first := 0; first < len(s.Rows); {
		encoded, n := encodeRows(s, first, repeats, limit-prefix-recordOverhead)
		if n == 0 {
			return nil, fmt.Errorf("encode step %d: row %d alone (%d pieces) is larger than a record of %d bytes; raise the "+
				"server's max_payload",
				s.Index, first, len(s.Rows[first]), limit)
		}
		p := StepPart{Step: *s, Part: len(parts), FirstRow: first, TotalRows: len(s.Rows), encodedRows: encoded}
		p.Rows = s.Rows[first : first+n]
		k := countRepeats(repeats, first+n)
		p.Repeats, repeats = repeats[:k], repeats[k:]
		parts = append(parts, p)
		first += n
	}
	records := make([][]byte, len(parts))
	for i, p := range parts {
		p.Parts = len(parts)
		records[i] = Encode(p)
	}
	return records, nil
}

// encodeRows encodes as many rows from first on as fit in limit bytes with their repeats, and returns their number.
func encodeRows(s *plan.Step, first int, repeats []plan.Repeat, limit int) ([]byte, int) {
	var body []byte
	previous := previousPieces{bucket: int64(s.Bucket)}
	for i, pieces := range s.Rows[first:] {
		next := appendRow(body, pieces, &previous)
		if len(next)+maxRepeatBytes*countRepeats(repeats, first+i+1) > limit {
			return body, i
		}
		body = next
	}
	return body, len(s.Rows) - first
}

// maxRepeatBytes is the maximum size of a repeat in a record.
const maxRepeatBytes = 3 * binary.MaxVarintLen64

// countRepeats returns how many of the repeats belong to rows before row.
func countRepeats(repeats []plan.Repeat, row int) int {
	n, _ := slices.BinarySearchFunc(repeats, row, func(r plan.Repeat, row int) int { return r.Row - row })
	return n
}

// Decode reads one record of a plan.
func Decode(b []byte) (Entry, error) {
	if len(b) < recordOverhead || string(b[:2]) != recordMagic {
		return nil, errors.New("decode plan record: not a record of a plan")
	}
	if b[2] != FormatVersion {
		return nil, fmt.Errorf("decode plan record: format version %d, this binary reads %d", b[2], FormatVersion)
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, errors.New("decode plan record: checksum does not match: the record is corrupted")
	}
	kind, in := b[3], codec.Cursor{Buf: body[4:]}
	if kind == kindHeader {
		return decodeHeader(in.Buf)
	}
	var e Entry
	if IsStepKind(kind) {
		e = readStepPart(&in, kind)
	} else {
		e = readEntry(&in, kind)
	}
	if in.Err == nil && len(in.Buf) > 0 {
		in.Err = fmt.Errorf("%d bytes too many", len(in.Buf))
	}
	if in.Err != nil {
		return nil, fmt.Errorf("decode plan record: %w", in.Err)
	}
	return e, nil
}

func decodeHeader(b []byte) (Entry, error) {
	var h Header
	if err := json.Unmarshal(b, &h); err != nil {
		return nil, fmt.Errorf("decode plan header: %w", err)
	}
	if !IsRunID(h.ID) {
		return nil, fmt.Errorf("decode plan header: %q is no id of a run: it has %d hexadecimal digits", h.ID, runIDDigits)
	}
	if err := h.validate(); err != nil {
		return nil, fmt.Errorf("decode plan header: %w", err)
	}
	return h, nil
}

// runIDDigits is the number of hexadecimal digits of a run's id.
const runIDDigits = 32

// IsRunID reports whether id is a valid id of a run.
func IsRunID(id string) bool {
	return len(id) == runIDDigits && strings.Trim(id, "0123456789abcdef") == ""
}

func readStepPart(r *codec.Cursor, kind byte) StepPart {
	var p StepPart
	p.Index = r.Uvarint()
	p.Bucket = int32(r.BoundedUvarint(math.MaxInt32))
	p.TotalRows = int(r.BoundedUvarint(1 << 20))
	p.Cursor = plan.PositionAfter(r.Uvarint())
	lowWatermark := r.Uvarint()
	p.Part = int(r.BoundedUvarint(1 << 20))
	p.Parts = int(r.BoundedUvarint(1 << 20))
	p.FirstRow = int(r.BoundedUvarint(1 << 20))
	n := int(r.BoundedUvarint(1 << 20))
	if r.Err == nil && (lowWatermark == 0 || p.Part >= p.Parts || p.FirstRow+n > p.TotalRows || n > len(r.Buf)) {
		r.Fail(fmt.Errorf("part %d of %d with rows [%d, +%d) of %d and low watermark %d is impossible", p.Part, p.Parts,
			p.FirstRow, n,
			p.TotalRows, lowWatermark))
	}
	if r.Err != nil {
		return p
	}
	p.LowWatermark = plan.PositionBefore(lowWatermark)
	p.SourcePositions = readPositions(r)
	if r.Err == nil && (len(p.SourcePositions) > 0) != (p.Part == 0 && p.Index%plan.SourcePositionInterval == 0) {
		r.Fail(fmt.Errorf("part %d of step %d names %d places of sources", p.Part, p.Index, len(p.SourcePositions)))
	}
	if kind != kindStep {
		readMasked(r, &p, kind)
	}
	if kind == kindLossStep {
		p.SourceLossTokens = readSourceLoss(r, p.Part)
	}
	previous := previousPieces{bucket: int64(p.Bucket)}
	p.Rows = make([][]packonline.Piece, n)
	for i := range p.Rows {
		p.Rows[i] = readRow(r, &previous)
	}
	for _, x := range p.Repeats {
		if r.Err != nil {
			return p
		}
		if i := x.Row - p.FirstRow; i >= n || x.Piece >= len(p.Rows[i]) || x.Tokens > p.Rows[i][x.Piece].Length {
			r.Fail(fmt.Errorf("piece %d of row %d repeats %d tokens: there are not so many", x.Piece, x.Row, x.Tokens))
		}
	}
	return p
}

// readMasked reads what appendMasked wrote.
func readMasked(r *codec.Cursor, p *StepPart, kind byte) {
	p.Masked, p.MaskedSegmentStarts = int64(r.BoundedUvarint(math.MaxInt64)), int64(r.BoundedUvarint(math.MaxInt64))
	if r.Err == nil && (p.Masked == 0 && kind == kindMaskedStep || p.MaskedSegmentStarts > p.Masked) {
		r.Fail(fmt.Errorf("%d tokens have no loss, %d of them at the beginning of a segment", p.Masked,
			p.MaskedSegmentStarts))
	}
	row := p.FirstRow
	for i := range r.BoundedUvarint(uint64(len(r.Buf)) / 3) {
		x := plan.Repeat{Row: row + int(r.BoundedUvarint(1<<20)), Piece: int(r.BoundedUvarint(1 << 31)),
			Tokens: int32(r.BoundedUvarint(math.MaxInt32))}
		if r.Err == nil && (x.Tokens == 0 || i > 0 && x.Row == row && x.Piece <= p.Repeats[i-1].Piece) {
			r.Fail(fmt.Errorf("piece %d of row %d repeats %d tokens", x.Piece, x.Row, x.Tokens))
		}
		if r.Err != nil {
			return
		}
		p.Repeats = append(p.Repeats, x)
		row = x.Row
	}
}

// readSourceLoss reads what appendSourceLoss wrote. It is not nil, and empty in later parts.
func readSourceLoss(r *codec.Cursor, part int) []int64 {
	n := r.BoundedUvarint(mixture.MaxSources)
	if r.Err == nil && (n > 0) != (part == 0) {
		r.Fail(fmt.Errorf("part %d has the tokens with a loss of %d sources", part, n))
	}
	out := []int64{}
	for range n {
		if out = append(out, int64(r.BoundedUvarint(math.MaxInt64/(mixture.MaxSources+1)))); r.Err != nil {
			break
		}
	}
	return out
}

// readPositions reads what appendPositions wrote.
func readPositions(r *codec.Cursor) []mixture.SourcePosition {
	n := r.BoundedUvarint(mixture.MaxSources)
	if n == 0 {
		return nil
	}
	out := make([]mixture.SourcePosition, 0, n)
	for range n {
		p := mixture.SourcePosition{Epoch: r.Uvarint(), Taken: r.Uvarint()}
		if r.Err != nil {
			return nil
		}
		out = append(out, p)
	}
	return out
}
