package tokentest

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Piece is a piece of a SentencePiece model. Its type is that of ModelProto: 0 for normal pieces.
type Piece struct {
	Text  string
	Score float32
	Type  uint64
}

// SentencePieceOptions are the pieces after <unk>, <s> and </s>, and options of ModelProto.
type SentencePieceOptions struct {
	Pieces       []Piece
	Kind         uint64 // 1: unigram, 2: BPE, 3: word, 4: char; 0 as 1
	ByteFallback bool
	Suffix       bool // treat_whitespace_as_suffix
	Charsmap     []byte
	KeepSpaces   bool // no remove_extra_whitespaces
	NoPrefix     bool // no add_dummy_prefix
	Unescaped    bool // no escape_whitespaces
}

// SentencePiece returns a tokenizer.model.
func SentencePiece(o SentencePieceOptions) (model []byte) {
	pieces := append([]Piece{{"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}}, o.Pieces...)
	for b := 0; b < 256 && o.ByteFallback; b++ {
		pieces = append(pieces, Piece{fmt.Sprintf("<0x%02X>", b), 0, 6})
	}
	for _, p := range pieces {
		message := appendBytes(nil, 1, []byte(p.Text))
		message = protowire.AppendFixed32(protowire.AppendTag(message, 2, protowire.Fixed32Type),
			math.Float32bits(p.Score))
		model = appendBytes(model, 1, appendNumber(message, 3, max(p.Type, 1)))
	}
	trainer := appendNumber(nil, 3, max(o.Kind, 1))
	trainer = appendNumber(appendNumber(trainer, 24, protowire.EncodeBool(o.Suffix)), 35,
		protowire.EncodeBool(o.ByteFallback))
	normalizer := appendNumber(appendBytes(nil, 2, o.Charsmap), 3, protowire.EncodeBool(!o.NoPrefix))
	normalizer = appendNumber(appendNumber(normalizer, 4, protowire.EncodeBool(!o.KeepSpaces)), 5,
		protowire.EncodeBool(!o.Unescaped))
	return appendBytes(appendBytes(model, 2, trainer), 3, normalizer)
}

func appendBytes(dst []byte, number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), content)
}

func appendNumber(dst []byte, number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), v)
}
