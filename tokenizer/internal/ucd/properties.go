// Package ucd is the Unicode Character Database of the reference implementations: general categories and other
// properties of characters, sets of characters, and the classes that splitting and normalizing text require.
//
// Its table is generated from Hugging Face tokenizers, so that characters have the same properties there and here,
// independent of the standard library's version of Unicode.
package ucd

import "strings"

//go:generate python3 ../gen/tables.py

// property has the properties of a character in the reference: its general category, and flags.
type property uint16

const (
	categoryBits          = 5
	wordFlag     property = 1 << (categoryBits + iota - 1) // \w
	hanFlag                                                // \p{Han}
	digitFlag                                              // split off by the Digits pre-tokenizer
	punctFlag                                              // split off by the Punctuation pre-tokenizer
	unstableFlag                                           // NFC may change it, or move or join it to preceding text
	controlFlag                                            // removed by clean_text of BertNormalizer
	accentFlag                                             // removed by strip_accents of BertNormalizer
	markFlag                                               // removed by StripAccents
)

// categories are the general categories by number.
const categories = "CnLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCo"

// isInCategory reports whether the general category is name (Lu), or one of a group (L).
func (p property) isInCategory(name string) bool {
	k := 2 * int(p&(1<<categoryBits-1))
	return strings.HasPrefix(categories[k:k+2], name)
}

// IsCategory reports whether name is a general category or a group of them.
func IsCategory(name string) bool {
	for k := 0; k < len(categories); k += 2 {
		if name == categories[k:k+1] || name == categories[k:k+2] {
			return true
		}
	}
	return false
}

// propertyRange has the properties of the characters from lo to hi. Characters in no range are unassigned and have no
// flag.
type propertyRange struct {
	lo, hi   rune
	property property
}
