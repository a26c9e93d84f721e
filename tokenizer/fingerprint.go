package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"regexp"
	"slices"
)

// fingerprintVersion changes when the same definition begins to give other ids.
const fingerprintVersion = 1

// sum hashes everything that shapes ids, in an order that does not depend on the file.
func (m *Model) sum() string {
	h := sha256.New()
	d := m.def
	fmt.Fprintf(h, "loaderd tokenizer %d\nsplit %s\nnfc %t\nprefix space %t\nspecial as text %t\n",
		fingerprintVersion, d.family.name, d.nfc, d.prefixSpace, d.specialAsText)
	hashStrings(h, "token", d.tokens)
	hashStrings(h, "name", d.names)
	hashStrings(h, "whole", m.whole)
	for rank, p := range d.merges.parts {
		fmt.Fprintf(h, "merge %d %d %d\n", d.merges.ids[p[0]], d.merges.ids[p[1]], d.merges.ids[d.merges.made[rank]])
	}
	for _, a := range d.added {
		fmt.Fprintf(h, "added %d %q special %t normalized %t\n", a.id, a.content, a.special, a.normalized)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// FingerprintForm is what every fingerprint looks like, those of tokenizers that are not ours too.
var FingerprintForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// hashStrings hashes a table by id: no two strings of a vocabulary have the same.
func hashStrings(h hash.Hash, kind string, ids map[string]int32) {
	list := make([]seed, 0, len(ids))
	for s, id := range ids {
		list = append(list, seed{s, id})
	}
	slices.SortFunc(list, func(a, b seed) int { return int(a.id) - int(b.id) })
	for _, s := range list {
		fmt.Fprintf(h, "%s %d %q\n", kind, s.id, s.word)
	}
}
