// Package vocab contains vocabularies that OpenAI has published with tiktoken (LICENSE), as merges that are
// equivalent to their ranks. Computing these takes most of the time of reading a rank file. Two numbers per token,
// whose upper bits rarely change from one to the next, need less space than its text.
package vocab

import (
	"compress/flate"
	"embed"
	"fmt"
	"io"
	"strings"
)

// A file is compressed with deflate. It starts with the 256 bytes, in the order of their ranks. The merges follow, in
// the order of the ranks that they make, from 256 on: the lowest bytes of the ranks of all left parts, their second
// and third bytes, and the same of the right parts.
//
//go:embed *.merges
var files embed.FS

// Vocabulary is the content of a rank file whose tokens have the ranks 0, 1, ... without a gap. Each token has one
// byte or is the result of one merge of two earlier tokens.
type Vocabulary struct {
	Bytes  [256]byte   // bytes with the ranks 0..255
	Merges [][2]uint32 // for the ranks from 256 on: the ranks of the left and the right part
}

const planes = 6 // bytes of a merge

// Read reads a vocabulary: r50k_base, cl100k_base or o200k_base.
func Read(name string) (*Vocabulary, error) {
	f, err := files.Open(name + ".merges")
	if err != nil {
		return nil, fmt.Errorf("no published vocabulary: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(flate.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("published vocabulary %s: %w", name, err)
	}
	v, err := unpack(data)
	if err != nil {
		return nil, fmt.Errorf("published vocabulary %s: %w", name, err)
	}
	return v, nil
}

func unpack(data []byte) (*Vocabulary, error) {
	v := &Vocabulary{}
	if len(data) < len(v.Bytes) || (len(data)-len(v.Bytes))%planes > 0 {
		return nil, fmt.Errorf("%d bytes are no 256 bytes and merges", len(data))
	}
	data = data[copy(v.Bytes[:], data):]
	n := len(data) / planes
	v.Merges = make([][2]uint32, n)
	part := func(plane, i int) uint32 {
		return uint32(data[plane*n+i]) | uint32(data[(plane+1)*n+i])<<8 | uint32(data[(plane+2)*n+i])<<16
	}
	for i := range v.Merges {
		left, right := part(0, i), part(3, i)
		if rank := uint32(256 + i); left >= rank || right >= rank {
			return nil, fmt.Errorf("rank %d is made of ranks %d and %d, want earlier ones", rank, left, right)
		}
		v.Merges[i] = [2]uint32{left, right}
	}
	return v, nil
}

// Texts returns the tokens by rank, each byte in the spelling of spell.
func (v *Vocabulary) Texts(spell func(string) string) []string {
	texts := make([]string, 256, 256+len(v.Merges))
	size := make([]int, 256, cap(texts))
	total := 0
	for i, b := range v.Bytes {
		texts[i] = spell(string([]byte{b}))
		size[i] = len(texts[i])
	}
	for _, m := range v.Merges {
		size = append(size, size[m[0]]+size[m[1]])
		total += size[len(size)-1]
	}
	var all strings.Builder // one text; all others are substrings of it
	all.Grow(total)
	for _, m := range v.Merges {
		from := all.Len()
		all.WriteString(texts[m[0]])
		all.WriteString(texts[m[1]])
		texts = append(texts, all.String()[from:])
	}
	return texts
}
