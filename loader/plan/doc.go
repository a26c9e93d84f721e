// Package plan holds the records of a plan log and what they are made of: configuration, header, steps, control
// records, checkpoints, and the Validator that refuses records that no leader can have written at their position.
// Package planner makes the steps.
//
// It is pure: no clock, no goroutine, no I/O, and no randomness that is not keyed by the configuration. It sees
// lengths, never tokens.
package plan
