package definition_test

import "loaderd/tokenizer/internal/tokentest"

// What files are made of, by short names.
type object = tokentest.Object

var (
	splitOn    = tokentest.SplitOn
	inSequence = tokentest.InSequence
	byteLevel  = tokentest.ByteLevel
	smallFile  = tokentest.SmallFile
	replacing  = tokentest.Replacing
)
