package wordcache

// door lets a missing word into a full line the second time that it comes within some thousand missing words. Most
// missing words are rare: at once in the line, each would push out one that comes more often.
type door [1 << doorLog]uint16

const doorLog = 12 // 8 KiB

// opens tells whether the word with a hash was here not long ago.
func (d *door) opens(hash uint64) bool {
	at, mark := &d[hash>>16%(1<<doorLog)], uint16(hash)
	again := *at == mark
	*at = mark
	return again
}
