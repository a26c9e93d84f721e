package tokenizer

import "loaderd/tokenizer/internal/tokentest"

// Short names for the parts of files.
type object = tokentest.Object

var (
	splitOn    = tokentest.SplitOn
	inSequence = tokentest.InSequence
	byteLevel  = tokentest.ByteLevel
	addedToken = tokentest.Added
	smallFile  = tokentest.SmallFile
	replacing  = tokentest.Replacing
	patternFor = tokentest.PatternFor
)
