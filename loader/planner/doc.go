// Package planner turns the lengths of documents into the steps of a run. Planner is the state machine. Applier feeds
// it documents and control records in the only valid order.
//
// The package is pure: it has no clock, no goroutine and no I/O, and all randomness is keyed by the configuration. It
// sees lengths, never tokens.
package planner
