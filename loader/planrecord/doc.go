// Package planrecord defines the records of a plan log (header, steps, control records) and checkpoints, with their
// encoding. Its Validator rejects records that no leader can have written at their position.
//
// Like package plan it is pure: it has no clock, no goroutine and no I/O.
package planrecord
