package pretokenize

import (
	"bytes"

	"loaderd/tokenizer/internal/ucd"
)

// trailingPattern matches whitespace before the end of a text or a line. An automaton would have to read each run of
// whitespace to its end to know.
const trailingPattern = `\s+$`

// trailingEnd is the end of the piece that begins at s[i] where texts are cut at the matches of trailingPattern.
func trailingEnd(s []byte, i int) int {
	end := ucd.Run(s, i, ucd.IsSpace)
	if k := trailingMatch(s, i, end); k > i {
		return k
	}
	for at := max(end, i); at < len(s); {
		at = ucd.RunNot(s, at, ucd.IsSpace)
		end = ucd.Run(s, at, ucd.IsSpace)
		if trailingMatch(s, at, end) > at {
			return at
		}
		at = end
	}
	return len(s)
}

// trailingMatch is the end of the match that begins at s[i], where whitespace goes on until end; i if there is none.
func trailingMatch(s []byte, i, end int) int {
	if end == len(s) {
		return end
	}
	return max(i, i+bytes.LastIndexByte(s[i:end], '\n'))
}
