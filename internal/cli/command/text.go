package command

import (
	"strconv"
	"strings"
	"unicode"
)

// Dash returns s, or a dash for no text.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Visible is text from outside as a terminal can take it: nothing in it moves the cursor. Line feeds stay where lines may.
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
