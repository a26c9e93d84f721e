package pretokenize

import (
	"bytes"

	"loaderd/tokenizer/internal/ucd"
)

// trailingPattern matches whitespace before the end of a text or a line. An automaton would have to read each run of
// whitespace to its end to decide.
const trailingPattern = `\s+$`

// trailingEnd returns the end of the piece that starts at s[i] if texts are split at the matches of trailingPattern.
func trailingEnd(s []byte, i int) int {
	end := ucd.EndOfClass(s, i, ucd.IsSpace)
	if k := trailingMatch(s, i, end); k > i {
		return k
	}
	for at := max(end, i); at < len(s); {
		at = ucd.EndOfOther(s, at, ucd.IsSpace)
		end = ucd.EndOfClass(s, at, ucd.IsSpace)
		if trailingMatch(s, at, end) > at {
			return at
		}
		at = end
	}
	return len(s)
}

// trailingMatch returns the end of the match that starts at s[i], where whitespace extends to end; i without a match.
func trailingMatch(s []byte, i, end int) int {
	if end == len(s) {
		return end
	}
	return max(i, i+bytes.LastIndexByte(s[i:end], '\n'))
}
