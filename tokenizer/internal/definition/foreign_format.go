package definition

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"loaderd/tokenizer/internal/format"
)

// foreignFormatError returns the error for a file that is neither a tokenizer.json, a SentencePiece model nor a rank
// file. It returns nil for these and for unrecognised files. It only peeks.
func foreignFormatError(in *bufio.Reader) error {
	start, _ := in.Peek(in.Size())
	switch {
	case bytes.HasPrefix(start, []byte("GGUF")):
		return fmt.Errorf("the file is a GGUF model: give the tokenizer.json of the model that it was converted from, or %s",
			format.PretokenizedHint)
	case isMerges(start):
		return fmt.Errorf("the file is a list of merges (merges.txt), which is one half of a tokenizer: %s",
			format.ConvertHint)
	}
	return nil
}

// isSentencePiece recognises the first piece of a SentencePiece model, a message with a text, and usually its score.
// It only peeks.
func isSentencePiece(in *bufio.Reader) bool {
	const pieces, text = 1, 1
	start, _ := in.Peek(in.Size())
	field, kind, n := protowire.ConsumeTag(start)
	if n < 0 || field != pieces || kind != protowire.BytesType {
		return false
	}
	piece, m := protowire.ConsumeBytes(start[n:])
	if m < 0 {
		return false
	}
	field, kind, n = protowire.ConsumeTag(piece)
	if n < 0 || field != text || kind != protowire.BytesType {
		return false
	}
	content, m := protowire.ConsumeBytes(piece[n:])
	return m > 0 && utf8.Valid(content)
}

// isMerges recognises a merges.txt by its first lines: a version, or two tokens in each.
func isMerges(start []byte) bool {
	if bytes.HasPrefix(start, []byte("#version")) {
		return true
	}
	lines := bytes.SplitN(start, []byte{'\n'}, 4)
	if len(lines) < 4 {
		return false
	}
	for _, line := range lines[:3] {
		parts := bytes.Split(bytes.TrimSuffix(line, []byte{'\r'}), []byte{' '})
		if len(parts) != 2 || len(parts[0]) == 0 || len(parts[1]) == 0 || !utf8.Valid(line) {
			return false
		}
		if _, err := strconv.Atoi(string(parts[1])); err == nil {
			return false // a rank
		}
	}
	return true
}
