package pretokenize

// The byte-level alphabet is GPT-2's bytes_to_unicode: tokenizer.json writes each byte as a printable character.
var byteOfRune = func() map[rune]byte {
	m := make(map[rune]byte, 256)
	next := rune(256)
	for b := range rune(256) {
		if b >= '!' && b <= '~' || b >= '¡' && b <= '¬' || b >= '®' {
			m[b] = byte(b)
			continue
		}
		m[next] = byte(b)
		next++
	}
	return m
}()

// byteAt is the alphabet by character: a byte plus 1, or 0 for characters outside it.
var byteAt = func() (at [512]uint16) {
	for r, b := range byteOfRune {
		at[r] = uint16(b) + 1
	}
	return at
}()

// AppendBytes appends the bytes that a token of the alphabet represents. For other and for empty tokens ok is false
// and it returns dst.
func AppendBytes(dst []byte, token string) (text []byte, ok bool) {
	text = dst
	for _, r := range token {
		if r >= rune(len(byteAt)) || byteAt[r] == 0 {
			return dst, false
		}
		text = append(text, byte(byteAt[r]-1))
	}
	return text, len(token) > 0
}

// runeOfByte is the inverse of byteOfRune.
var runeOfByte = func() (runes [256]rune) {
	for r, b := range byteOfRune {
		runes[b] = r
	}
	return runes
}()

// SpellBytes writes bytes in the alphabet.
func SpellBytes(text string) string {
	out := make([]rune, len(text))
	for i := range len(text) {
		out[i] = runeOfByte[text[i]]
	}
	return string(out)
}
