package tokenfiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A file of llm.c starts with 256 numbers of 32 bits: a magic number, a version, and how many ids follow.
const llmcHeader = 256 * 4

// llmcTypes are the types of ids by magic number and version.
var llmcTypes = map[[2]uint32]string{{20240520, 1}: "uint16", {20240801, 7}: "uint32"}

// IsLLMC reports whether data starts like a file of llm.c (or of modded-nanogpt).
func IsLLMC(head []byte) bool {
	if len(head) < 12 {
		return false
	}
	magic := binary.LittleEndian.Uint32(head)
	for known := range llmcTypes {
		if known[0] == magic {
			return true
		}
	}
	return false
}

// NewLLMCStream reads the ids of a file of llm.c.
func NewLLMCStream(r io.Reader, c Boundaries) (*Stream, error) {
	header := make([]byte, llmcHeader)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, truncatedError("its header", err)
	}
	if !IsLLMC(header) {
		return nil, errors.New("it does not begin as a file of llm.c does")
	}
	magic, version := binary.LittleEndian.Uint32(header), binary.LittleEndian.Uint32(header[4:])
	name, ok := llmcTypes[[2]uint32{magic, version}]
	if !ok {
		return nil, fmt.Errorf("version %d of llm.c's files with the magic %d is not known", version, magic)
	}
	t, err := TypeOf(name)
	if err != nil {
		return nil, err
	}
	s, err := NewRawStream(r, t, c)
	if err != nil {
		return nil, err
	}
	s.total = int64(binary.LittleEndian.Uint32(header[8:]))
	return s, nil
}
