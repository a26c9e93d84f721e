// Package planrecord holds the records of a plan log: header, steps, control records and checkpoints, their encoding,
// and the Validator that refuses records that no leader can have written at their position.
//
// Like package plan it is pure: no clock, no goroutine and no I/O.
package planrecord
