package sentencepiece

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Type is the type of a piece.
type Type int32

// The types of pieces, as in sentencepiece_model.proto.
const (
	Normal Type = iota + 1
	Unknown
	Control
	UserDefined
	Unused
	Byte
)

// Piece is an element of the vocabulary. Its id is its index.
type Piece struct {
	Text  string
	Score float32
	Type  Type
}

// Kind is how a model finds the pieces of a text.
type Kind int32

// The kinds of models, as in sentencepiece_model.proto.
const (
	Unigram Kind = iota + 1
	BPE
	Word
	Char
)

// File is the content of a tokenizer.model that determines ids: a ModelProto.
type File struct {
	Pieces                 []Piece
	Kind                   Kind
	ByteFallback           bool
	SpaceAsSuffix          bool // treat_whitespace_as_suffix
	UnknownSurface         string
	EndPiece               string
	Charsmap               []byte
	AddDummyPrefix         bool
	RemoveExtraWhitespaces bool
	EscapeWhitespaces      bool
}

// Bounds of a file.
const (
	maxPieces = 1<<21 - 2 // and their unknown characters
	// maxPieceBytes bounds a piece. SentencePiece's trainer makes pieces of up to 512 characters, of 16 by default.
	maxPieceBytes = 512
	maxBytes      = 1 << 24 // of all pieces
)

// Parse reads a ModelProto. It fails for one that is cut short or damaged.
func Parse(message []byte) (*File, error) {
	f := &File{Kind: Unigram, UnknownSurface: " \u2047 ", EndPiece: "</s>", AddDummyPrefix: true,
		RemoveExtraWhitespaces: true, EscapeWhitespaces: true}
	bytes := 0
	hasTrainer, hasNormalizer := false, false
	err := eachField("ModelProto", message, func(x field) error {
		switch x.number {
		case 1:
			if len(f.Pieces) == maxPieces {
				return fmt.Errorf("more than %d pieces", maxPieces)
			}
			p := Piece{Type: Normal}
			where := "piece " + strconv.Itoa(len(f.Pieces))
			err := x.message(where, p.setField)
			f.Pieces = append(f.Pieces, p)
			if bytes += len(p.Text); err == nil && len(p.Text) > maxPieceBytes || bytes > maxBytes {
				err = fmt.Errorf("%s has %d bytes: at most %d bytes are supported, and 16 MiB of all pieces", where,
					len(p.Text), maxPieceBytes)
			}
			return err
		case 2:
			hasTrainer = true
			return x.message("trainer_spec", f.setTrainerField)
		case 3:
			hasNormalizer = true
			return x.message("normalizer_spec", f.setNormalizerField)
		}
		return nil
	})
	if err == nil && !(hasTrainer && hasNormalizer) { // SentencePiece would use the defaults
		err = fmt.Errorf("no trainer_spec and normalizer_spec after %d pieces: the file is cut short", len(f.Pieces))
	}
	if err == nil {
		err = f.check()
	}
	return f, err
}

func (p *Piece) setField(x field) (err error) {
	switch x.number {
	case 1:
		p.Text, err = x.text()
	case 2:
		if x.kind != protowire.Fixed32Type {
			return x.typeError("a 32-bit float")
		}
		p.Score = math.Float32frombits(uint32(x.value))
	case 3:
		if t := Type(x.value); x.kind == protowire.VarintType && t >= Normal && t <= Byte {
			p.Type = t
		}
	}
	return err
}

func (f *File) setTrainerField(x field) (err error) {
	switch x.number {
	case 3:
		if k := Kind(x.value); x.kind == protowire.VarintType && k >= Unigram && k <= Char {
			f.Kind = k
		}
	case 24:
		f.SpaceAsSuffix, err = x.boolean()
	case 35:
		f.ByteFallback, err = x.boolean()
	case 44:
		f.UnknownSurface, err = x.text()
	case 47:
		f.EndPiece, err = x.text()
	}
	return err
}

func (f *File) setNormalizerField(x field) (err error) {
	switch x.number {
	case 2:
		if x.kind != protowire.BytesType {
			return x.typeError("bytes")
		}
		f.Charsmap = x.bytes
	case 3:
		f.AddDummyPrefix, err = x.boolean()
	case 4:
		f.RemoveExtraWhitespaces, err = x.boolean()
	case 5:
		f.EscapeWhitespaces, err = x.boolean()
	}
	return err
}

// field is a field of a message.
type field struct {
	where  string
	number protowire.Number
	kind   protowire.Type
	value  uint64
	bytes  []byte
}

// eachField calls set for each field of a message.
func eachField(where string, message []byte, set func(field) error) error {
	size := len(message)
	for len(message) > 0 {
		x := field{where: where}
		at := size - len(message)
		var n, m int
		x.number, x.kind, n = protowire.ConsumeTag(message)
		if n >= 0 {
			switch message = message[n:]; x.kind {
			case protowire.VarintType:
				x.value, m = protowire.ConsumeVarint(message)
			case protowire.Fixed32Type:
				var v uint32
				v, m = protowire.ConsumeFixed32(message)
				x.value = uint64(v)
			case protowire.BytesType:
				x.bytes, m = protowire.ConsumeBytes(message)
			default:
				m = protowire.ConsumeFieldValue(x.number, x.kind, message)
			}
		}
		if n < 0 || m < 0 {
			return fmt.Errorf("%s: no valid field at byte %d of %d: the file is cut short or damaged", where, at, size)
		}
		message = message[m:]
		if err := set(x); err != nil {
			return err
		}
	}
	return nil
}

func (x field) typeError(want string) error {
	return fmt.Errorf("%s: field %d is not %s: the file is damaged", x.where, x.number, want)
}

func (x field) message(where string, set func(field) error) error {
	if x.kind != protowire.BytesType {
		return x.typeError("a message")
	}
	return eachField(where, x.bytes, set)
}

func (x field) text() (string, error) {
	if x.kind != protowire.BytesType || !utf8.Valid(x.bytes) {
		return "", x.typeError("text in UTF-8")
	}
	return string(x.bytes), nil
}

func (x field) boolean() (bool, error) {
	if x.kind != protowire.VarintType {
		return false, x.typeError("true or false")
	}
	return x.value != 0, nil
}

var bytePiece = regexp.MustCompile(`^<0x[0-9A-F]{2}>$`)

// check returns an error for pieces that SentencePiece does not load. It makes a piece of a zero byte unused.
func (f *File) check() error {
	texts, reserved := make(map[string]bool, len(f.Pieces)), map[string]bool{}
	unknowns, bytes := 0, 0
	for id := range f.Pieces {
		p := &f.Pieces[id]
		if p.Text == "\x00" && (f.ByteFallback || p.Type == Unused) {
			p.Type = Unused
			continue
		}
		seen := texts
		if p.isReserved() && f.Kind != BPE {
			seen = reserved
		}
		err := f.checkPiece(p)
		if seen[p.Text] {
			err = errors.New("it occurs twice")
		}
		if err != nil {
			return fmt.Errorf("piece %d %q: %w", id, p.Text, err)
		}
		seen[p.Text] = true
		switch p.Type {
		case Unknown:
			unknowns++
		case Byte:
			bytes++
		}
	}
	switch {
	case unknowns > 1 || unknowns == 0 && !f.ByteFallback:
		return fmt.Errorf("%d pieces for unknown text, want 1", unknowns)
	case f.ByteFallback && bytes != 256:
		return fmt.Errorf("%d pieces for bytes, want 256 because byte_fallback is on", bytes)
	case f.Kind == Word && !f.EscapeWhitespaces:
		return errors.New("a word model without escape_whitespaces is not supported")
	case f.Kind == Unigram && len(texts) == 0:
		return errors.New("no pieces for text")
	}
	return nil
}

// checkPiece returns an error for a piece that SentencePiece does not load.
func (f *File) checkPiece(p *Piece) error {
	switch {
	case p.Text == "" || strings.ContainsRune(p.Text, 0):
		return errors.New("it is empty or contains a zero byte")
	case p.Type == Byte && !f.ByteFallback:
		return errors.New("it is a byte, but byte_fallback is off")
	case p.Type == Byte && !bytePiece.MatchString(p.Text):
		return errors.New("want a byte as <0x0A>")
	case f.Kind == Unigram && (math.IsNaN(float64(p.Score)) || math.IsInf(float64(p.Score), 0)):
		return errors.New("its score is not finite")
	}
	return nil
}

// isReserved reports that no text has the piece.
func (p *Piece) isReserved() bool { return p.Type == Unknown || p.Type == Control || p.Type == Byte }
