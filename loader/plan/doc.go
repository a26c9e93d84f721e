// Package plan holds what a plan consists of: steps, and the documents by their lengths that they are made of. Package
// planner makes the steps; package planrecord encodes them.
//
// It is pure: no clock, no goroutine, no I/O, and no randomness that is not keyed by the configuration. It sees
// lengths, never tokens.
package plan
