package pretokenize

// The byte-level alphabet: tokenizer.json writes each byte as a printable character, GPT-2's bytes_to_unicode.
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

// BytesOf returns the bytes that a token of the alphabet stands for; ok is false for other and for empty tokens.
func BytesOf(token string) (text string, ok bool) {
	out := make([]byte, 0, len(token))
	for _, r := range token {
		b, ok := byteOfRune[r]
		if !ok {
			return "", false
		}
		out = append(out, b)
	}
	return string(out), len(out) > 0
}

// runeOfByte is the alphabet from the other side.
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
