package command

import (
	"strconv"
	"strings"
	"unicode"
)

// Visible returns untrusted text with every character quoted that could move the cursor. If lines is set, line feeds
// are kept.
func Visible(text string, lines bool) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' && lines, unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}
