package tokenizer

// The scanners are the split patterns, written out: each returns the end of the word that starts at s[i], i < len(s),
// as the pattern's first matching alternative would. They are exact for any valid UTF-8; the block rules do the same for
// runs of ASCII, faster.

// contraction returns the end of 's 't 're 've 'm 'll 'd at the apostrophe s[i], or 0. Ignoring case lets U+017F, the
// long s, stand for s.
func contraction(s []byte, i int, ignoreCase bool) int {
	if i+1 >= len(s) {
		return 0
	}
	if ignoreCase && s[i+1] == 0xC5 && i+2 < len(s) && s[i+2] == 0xBF {
		return i + 3
	}
	switch a := lower(s[i+1], ignoreCase); a {
	case 's', 't', 'm', 'd':
		return i + 2
	case 'r', 'v', 'l':
		if i+2 < len(s) {
			b := lower(s[i+2], ignoreCase)
			if a == 'l' && b == 'l' || a != 'l' && b == 'e' {
				return i + 3
			}
		}
	}
	return 0
}

func lower(b byte, ignoreCase bool) byte {
	if ignoreCase && b >= 'A' && b <= 'Z' {
		b |= 0x20
	}
	return b
}

// run returns the end of the characters from i on that are of a class in c.
func run(s []byte, i int, c class) int {
	for i < len(s) {
		k, n := classAt(s, i)
		if k&c == 0 {
			break
		}
		i += n
	}
	return i
}

// runNot returns the end of the characters from i on that are of no class in c.
func runNot(s []byte, i int, c class) int {
	for i < len(s) {
		k, n := classAt(s, i)
		if k&c != 0 {
			break
		}
		i += n
	}
	return i
}

// blanks matches \s+(?!\S)|\s+ at the whitespace s[i]; with newlines, \s*[\r\n]+ before that.
func blanks(s []byte, i int, newlines bool) int {
	k, last, end := i, i, -1
	for k < len(s) {
		c, n := classAt(s, k)
		if c&isSpace == 0 {
			break
		}
		last = k
		k += n
		if newlines && c&isNewline != 0 {
			end = k
		}
	}
	switch {
	case end >= 0:
		return end
	case k == len(s) || last == i:
		return k
	}
	return last // the last one goes with what follows
}

// digits matches \p{N}{1,limit} at i, or nothing.
func digits(s []byte, i, limit int) int {
	for ; limit > 0 && i < len(s); limit-- {
		c, n := classAt(s, i)
		if c&isNumber == 0 {
			break
		}
		i += n
	}
	return i
}

// scanGPT2 is 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func scanGPT2(s []byte, i int) int {
	if s[i] == '\'' {
		if end := contraction(s, i, false); end > 0 {
			return end
		}
	}
	j := i
	if s[i] == ' ' {
		if j++; j == len(s) {
			return j
		}
	}
	c, n := classAt(s, j)
	switch {
	case c&isLetter != 0:
		return run(s, j+n, isLetter)
	case c&isNumber != 0:
		return run(s, j+n, isNumber)
	case c&isSpace == 0:
		return runNot(s, j+n, isSpace|isLetter|isNumber)
	}
	return blanks(s, i, false)
}

func scanCL100K(s []byte, i int) int { return scanCL(s, i, 3) }
func scanQwen(s []byte, i int) int   { return scanCL(s, i, 1) }

// scanCL is (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,maxDigits}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
func scanCL(s []byte, i, maxDigits int) int {
	if s[i] == '\'' {
		if end := contraction(s, i, true); end > 0 {
			return end
		}
	}
	c, n := classAt(s, i)
	if c&isLetter != 0 {
		return run(s, i+n, isLetter)
	}
	if c&isNumber != 0 {
		return digits(s, i, maxDigits)
	}
	if c&isNewline == 0 && i+n < len(s) {
		c2, n2 := classAt(s, i+n)
		if c2&isLetter != 0 {
			return run(s, i+n+n2, isLetter)
		}
		if s[i] == ' ' && c2&(isSpace|isNumber) == 0 {
			return run(s, runNot(s, i+n+n2, isSpace|isLetter|isNumber), isNewline)
		}
	}
	if c&isSpace == 0 {
		return run(s, runNot(s, i+n, isSpace|isLetter|isNumber), isNewline)
	}
	return blanks(s, i, true)
}

// lowerWord matches U*W+ at i, U being [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and W [\p{Ll}\p{Lm}\p{Lo}\p{M}]: its end, or -1.
func lowerWord(s []byte, i int) int {
	lastW := -1
	for i < len(s) {
		c, n := classAt(s, i)
		if c&isUpper == 0 {
			break
		}
		i += n
		if c&isLower != 0 {
			lastW = i // U* can give this one back to W+
		}
	}
	if end := run(s, i, isLower); end > i {
		return end
	}
	return lastW
}

// withContraction matches (?i:'s|'t|'re|'ve|'m|'ll|'d)? at i.
func withContraction(s []byte, i int) int {
	if i < len(s) && s[i] == '\'' {
		if end := contraction(s, i, true); end > 0 {
			return end
		}
	}
	return i
}

// scanO200K is, U and W as in lowerWord and C the contractions, [^\r\n\p{L}\p{N}]?U*W+C?|[^\r\n\p{L}\p{N}]?U+W*C?|
// \p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
func scanO200K(s []byte, i int) int {
	c, n := classAt(s, i)
	lead := c&(isNewline|isLetter|isNumber) == 0 && i+n < len(s)
	if lead {
		if end := lowerWord(s, i+n); end > 0 {
			return withContraction(s, end)
		}
	}
	if c&(isUpper|isLower) != 0 {
		if end := lowerWord(s, i); end > 0 {
			return withContraction(s, end)
		}
	}
	if lead {
		if end := run(s, i+n, isUpper); end > i+n {
			return withContraction(s, run(s, end, isLower))
		}
	}
	if c&isUpper != 0 {
		return withContraction(s, run(s, run(s, i, isUpper), isLower))
	}
	if c&isNumber != 0 {
		return digits(s, i, 3)
	}
	j := i
	if s[i] == ' ' {
		j++
	}
	if j < len(s) {
		if c2, n2 := classAt(s, j); c2&(isSpace|isLetter|isNumber) == 0 {
			end := runNot(s, j+n2, isSpace|isLetter|isNumber)
			for end < len(s) && (s[end] == '\r' || s[end] == '\n' || s[end] == '/') {
				end++
			}
			return end
		}
	}
	return blanks(s, i, true)
}
