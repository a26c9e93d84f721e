package wordcache

// doorkeeper admits a missing word to a full line when it occurs for the second time within some thousand missing
// words. Most missing words are rare. If admitted on first occurrence, each would evict a more frequent word.
type doorkeeper [1 << doorkeeperLog]uint16

const doorkeeperLog = 12 // 8 KiB

// admits reports whether the word with a hash was missing recently.
func (d *doorkeeper) admits(hash uint64) bool {
	at, mark := &d[hash>>16%(1<<doorkeeperLog)], uint16(hash)
	again := *at == mark
	*at = mark
	return again
}
