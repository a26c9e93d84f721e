package tokenizer

import "loaderd/tokenizer/internal/tokentest"

// Short names for the parts of files.
type object = tokentest.Object

var (
	splitOn    = tokentest.SplitPart
	inSequence = tokentest.SequencePreTokenizer
	byteLevel  = tokentest.ByteLevel
	addedToken = tokentest.Added
	smallFile  = tokentest.SmallFile
	replacing  = tokentest.ReplaceNormalizer
	patternFor = tokentest.SplitPreTokenizer
)
