package command

import (
	"strconv"
	"strings"
	"unicode"
)

// Visible returns text from outside with every character that could move the cursor quoted; with lines, line feeds
// stay.
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
