// Package ucd is the Unicode Character Database as the reference implementations see it: general categories and other
// properties of characters, sets of characters, and the classes that cutting and normalizing text ask for.
//
// Its table is generated from Hugging Face tokenizers, so that characters are what they are there, whatever version of
// Unicode the standard library has.
package ucd

import "strings"

//go:generate python3 ../gen/tables.py

// property is what the reference knows about a character: its general category, and flags.
type property uint16

const (
	categoryBits          = 5
	wordFlag     property = 1 << (categoryBits + iota - 1) // \w
	hanFlag                                                // \p{Han}
	digitFlag                                              // the Digits pre-tokenizer splits it off
	punctFlag                                              // the Punctuation pre-tokenizer splits it off
	unstableFlag                                           // NFC may change it, or move or join it to what is before
)

// categories are the general categories by their number.
const categories = "CnLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCo"

// in tells whether the general category is name (Lu), or one of a group (L).
func (p property) in(name string) bool {
	k := 2 * int(p&(1<<categoryBits-1))
	return strings.HasPrefix(categories[k:k+2], name)
}

// IsCategory tells whether name is a general category or a group of them.
func IsCategory(name string) bool {
	for k := 0; k < len(categories); k += 2 {
		if name == categories[k:k+1] || name == categories[k:k+2] {
			return true
		}
	}
	return false
}

// propertyRange gives the properties of the characters from lo to hi. Those in no range are unassigned and have no
// flag.
type propertyRange struct {
	lo, hi   rune
	property property
}
