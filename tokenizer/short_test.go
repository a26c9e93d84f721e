package tokenizer

import "loaderd/tokenizer/internal/tokentest"

// What files are made of, by short names.
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
