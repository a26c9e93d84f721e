// Package vocab holds vocabularies that OpenAI has published with tiktoken (LICENSE), as the merges that their
// ranks stand for. Finding these takes longer than anything else on the way from a rank file to a tokenizer, and two
// numbers for a token, of which the upper bits hardly change from one to the next, take less room than its text.
package vocab

import (
	"compress/flate"
	"embed"
	"fmt"
	"io"
	"strings"
)

// A file is compressed by deflate. It begins with the 256 bytes, in the order of their ranks. The merges follow, in the
// order of the ranks that they make, from 256 on: the lowest bytes of the ranks of all left parts, their second and
// third bytes, and the same of the right parts.
//
//go:embed *.merges
var files embed.FS

// Vocabulary is what a rank file says: its tokens have the ranks 0, 1, ... without a gap, and each has one byte or is
// what one merge makes of two tokens before it.
type Vocabulary struct {
	Bytes  [256]byte   // those of the ranks 0..255
	Merges [][2]uint32 // of the ranks from 256 on: the ranks of the left and the right part
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

// Texts are the tokens by rank, each byte as spell writes it.
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
	var all strings.Builder // one text, of which all others are parts
	all.Grow(total)
	for _, m := range v.Merges {
		from := all.Len()
		all.WriteString(texts[m[0]])
		all.WriteString(texts[m[1]])
		texts = append(texts, all.String()[from:])
	}
	return texts
}
