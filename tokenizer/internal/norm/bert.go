package norm

import (
	"unicode/utf8"

	"loaderd/tokenizer/internal/ucd"
)

// Bert has the options of a BertNormalizer.
type Bert struct {
	CleanText    bool // remove control characters, and replace white space by spaces
	SpacesHan    bool // put spaces around Chinese characters (handle_chinese_chars)
	StripAccents bool
	Lowercase    bool
}

// bert returns s after a BertNormalizer, in the buffer. It treats each character alone, unless some marks that are not
// removed may have to be sorted.
func (n *normalizer) bert(buffer *[]byte, s []byte, o *Bert) []byte {
	if n.tables == nil {
		n.tables, n.lower, n.ascii = nfc(), lowerTable(), o.asciiTable()
	}
	out := ReuseBuffer(*buffer)
	if cap(out) < len(s) {
		out = make([]byte, 0, len(s)+len(s)/4)
	}
	for i := 0; i < len(s); {
		if end := asciiEnd(s, i); end > i {
			out = n.appendASCII(out, s[i:end])
			i = end
			continue
		}
		r, size := utf8.DecodeRune(s[i:])
		c := ucd.ClassOf(r)
		i += size
		if o.CleanText {
			if r == utf8.RuneError || c&ucd.IsControl != 0 {
				continue
			}
			if c&ucd.IsSpace != 0 {
				out = append(out, ' ')
				continue
			}
		}
		han := o.SpacesHan && isChinese(r)
		if han {
			out = append(out, ' ')
		}
		if !o.StripAccents {
			out = n.appendCased(out, r, o)
		} else {
			n.runes = n.runes[:0]
			n.decompose(r)
			for _, m := range n.runes {
				if ucd.ClassOf(m.r)&ucd.IsAccent != 0 {
					continue
				}
				if m.class > 0 {
					return n.bertBySteps(buffer, s, o)
				}
				out = n.appendCased(out, m.r, o)
			}
		}
		if han {
			out = append(out, ' ')
		}
	}
	*buffer = out
	return out
}

func (n *normalizer) appendCased(dst []byte, r rune, o *Bert) []byte {
	if o.Lowercase {
		return n.lower.appendLower(dst, r)
	}
	return utf8.AppendRune(dst, r)
}

// appendASCII appends ASCII text by a table, without branching on its bytes.
func (n *normalizer) appendASCII(dst, s []byte) []byte {
	k := len(dst)
	dst = append(dst, s...)
	t := n.ascii
	for _, c := range s {
		to := t[c]
		dst[k] = byte(to)
		k += int(to >> 8)
	}
	return dst[:k]
}

// asciiTable has for each byte what replaces it, plus 1<<8 if it is not removed.
func (o *Bert) asciiTable() *[utf8.RuneSelf]uint16 {
	var t [utf8.RuneSelf]uint16
	for b := range t {
		c := byte(b)
		class := ucd.ClassOf(rune(b))
		switch {
		case o.CleanText && (b == 0 || class&ucd.IsControl != 0):
			continue
		case o.CleanText && class&ucd.IsSpace != 0:
			c = ' '
		case o.Lowercase:
			c = lowerASCII(c)
		}
		t[b] = 1<<8 | uint16(c)
	}
	return &t
}

// bertBySteps is bert by its definition, one step after the other.
func (n *normalizer) bertBySteps(buffer *[]byte, s []byte, o *Bert) []byte {
	out := make([]byte, 0, len(s)+len(s)/2)
	for _, r := range string(s) {
		c := ucd.ClassOf(r)
		switch {
		case o.CleanText && (r == 0 || r == utf8.RuneError || c&ucd.IsControl != 0):
		case o.CleanText && c&ucd.IsSpace != 0:
			out = append(out, ' ')
		case o.SpacesHan && isChinese(r):
			out = append(utf8.AppendRune(append(out, ' '), r), ' ')
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	var kept []byte
	if o.StripAccents {
		out = dropClass(&kept, n.nfd(out), ucd.IsAccent)
	}
	if o.Lowercase {
		return lower(buffer, out)
	}
	*buffer = append(ReuseBuffer(*buffer), out...)
	return *buffer
}

// isChinese reports whether BERT treats a character as a word: those of the blocks of CJK ideographs.
func isChinese(r rune) bool {
	switch {
	case r < 0x3400:
		return false
	case r <= 0xFAFF:
		return r <= 0x4DBF || r >= 0x4E00 && r <= 0x9FFF || r >= 0xF900
	}
	return r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF ||
		r >= 0x2F800 && r <= 0x2FA1F
}
