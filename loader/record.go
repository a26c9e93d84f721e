package loader

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"loaderd/packonline"
)

// FormatVersion is the version of the plan's records. docs/plan.md describes them.
const FormatVersion = 2

// Kinds of records.
const (
	kindHeader = 1 // first record of a plan
	kindStep   = 2 // a step, or a part of one that is larger than a record
	kindSeal   = 3 // control: the stream ends behind a document
	kindDrain  = 4 // control: the pool empties behind a document
	kindCommit = 5 // a keeper's own checkpoint covers all steps before one
	kindEnd    = 6 // no step follows
	kindLeave  = 7 // a keeper leaves
)

const (
	recordMagic    = "LP"
	recordOverhead = len(recordMagic) + 2 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is the first record of a plan.
type Header struct {
	Format      int    `json:"format"`
	Algorithm   int    `json:"algorithm"`
	Run         string `json:"run"`
	Fingerprint string `json:"fingerprint"`
	Start       uint64 `json:"start"`  // sequence of the run's first document
	Stream      Stream `json:"stream"` // that its documents come from
	Config      Config `json:"config"`
	// Parent is the run that this one was forked from.
	Parent *Parent `json:"parent,omitempty"`
	// Repair says of which damaged plan this one is a copy.
	Repair *Repair `json:"repair,omitempty"`
}

// Record is one decoded record of a plan. What is meaningful besides Kind depends on it.
type Record struct {
	Kind   byte
	Header Header
	Part   stepPart
	At     uint64 // seal, drain: the document behind which it takes effect; commit: the step; end: the number of steps
	Keeper string // commit, leave
}

// stepPart is rows [First, First+len(Rows)) of a step.
type stepPart struct {
	Step
	part, parts, first, total int
}

func seal(kind byte, body []byte) []byte {
	b := make([]byte, 0, len(body)+recordOverhead)
	b = append(b, recordMagic...)
	b = append(b, FormatVersion, kind)
	b = append(b, body...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func encodeHeader(h Header) []byte {
	b, err := json.Marshal(h)
	if err != nil {
		panic(fmt.Sprintf("loader: marshal header: %v", err))
	}
	return seal(kindHeader, b)
}

func encodeControl(kind byte, at uint64) []byte { return seal(kind, binary.AppendUvarint(nil, at)) }

// encodeStep writes a step as one record, or as several when it is larger than limit bytes.
func encodeStep(s *Step, limit int) ([][]byte, error) {
	const prefix = 9 * binary.MaxVarintLen64
	type part struct {
		first, rows int
		body        []byte
	}
	var parts []part
	for first := 0; first < len(s.Rows); {
		body, n := encodeRows(s.Rows[first:], limit-prefix-recordOverhead)
		if n == 0 {
			return nil, fmt.Errorf("encode step %d: row %d alone (%d pieces) is larger than a record of %d bytes; raise the server's max_payload",
				s.Index, first, len(s.Rows[first]), limit)
		}
		parts = append(parts, part{first, n, body})
		first += n
	}
	records := make([][]byte, len(parts))
	for i, p := range parts {
		b := make([]byte, 0, prefix+len(p.body))
		for _, v := range []uint64{s.Index, uint64(s.Bucket), uint64(len(s.Rows)), s.Cursor, s.Floor, uint64(i), uint64(len(parts)), uint64(p.first), uint64(p.rows)} {
			b = binary.AppendUvarint(b, v)
		}
		records[i] = seal(kindStep, append(b, p.body...))
	}
	return records, nil
}

// encodeRows writes as many rows as fit in limit bytes and returns their number.
func encodeRows(rows [][]packonline.Piece, limit int) ([]byte, int) {
	var body []byte
	var previous uint64
	for i, pieces := range rows {
		next := appendPieces(body, pieces, &previous)
		if len(next) > limit {
			return body, i
		}
		body = next
	}
	return body, len(rows)
}

// DecodeRecord reads one record of a plan.
func DecodeRecord(b []byte) (Record, error) {
	if len(b) < recordOverhead || string(b[:2]) != recordMagic {
		return Record{}, errors.New("decode plan record: not a record of a plan")
	}
	if b[2] != FormatVersion {
		return Record{}, fmt.Errorf("decode plan record: format version %d, this binary reads %d", b[2], FormatVersion)
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return Record{}, errors.New("decode plan record: checksum does not match: the record is corrupted")
	}
	rec := Record{Kind: b[3]}
	body = body[4:]
	in := reader{b: body}
	switch rec.Kind {
	case kindHeader:
		if err := json.Unmarshal(body, &rec.Header); err != nil {
			return Record{}, fmt.Errorf("decode plan header: %w", err)
		}
		return rec, nil
	case kindStep:
		rec.Part = in.stepPart()
	case kindSeal, kindDrain, kindEnd:
		rec.At = in.uvarint()
	case kindCommit, kindLeave:
		rec.At, rec.Keeper = in.uvarint(), in.keeper()
	default:
		return Record{}, fmt.Errorf("decode plan record: unknown kind %d", rec.Kind)
	}
	if in.err == nil && len(in.b) > 0 {
		in.err = fmt.Errorf("%d bytes too many", len(in.b))
	}
	if in.err != nil {
		return Record{}, fmt.Errorf("decode plan record: %w", in.err)
	}
	return rec, nil
}

func (r *reader) stepPart() stepPart {
	var p stepPart
	p.Index = r.uvarint()
	p.Bucket = int32(r.bounded(math.MaxInt32))
	p.total = int(r.bounded(1 << 20))
	p.Cursor, p.Floor = r.uvarint(), r.uvarint()
	p.part = int(r.bounded(1 << 20))
	p.parts = int(r.bounded(1 << 20))
	p.first = int(r.bounded(1 << 20))
	n := int(r.bounded(1 << 20))
	if r.err == nil && (p.part >= p.parts || p.first+n > p.total || n > len(r.b)) {
		r.fail(fmt.Errorf("part %d of %d with rows [%d, +%d) of %d is impossible", p.part, p.parts, p.first, n, p.total))
	}
	if r.err != nil {
		return p
	}
	var previous uint64
	p.Rows = make([][]packonline.Piece, n)
	for i := range p.Rows {
		p.Rows[i] = r.pieces(&previous)
	}
	return p
}
