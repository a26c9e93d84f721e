package wordcache

// door admits a missing word to a full line when it occurs for the second time within some thousand missing words.
// Most missing words are rare. If admitted on first occurrence, each would evict a more frequent word.
type door [1 << doorLog]uint16

const doorLog = 12 // 8 KiB

// opens reports whether the word with a hash was missing recently.
func (d *door) opens(hash uint64) bool {
	at, mark := &d[hash>>16%(1<<doorLog)], uint16(hash)
	again := *at == mark
	*at = mark
	return again
}
