// Package planner turns the lengths of documents into the steps of a run. The Planner is the state machine; the Applier
// gives it documents and control records in the only order that is possible.
//
// It is pure: no clock, no goroutine, no I/O, and no randomness that is not keyed by the configuration. It sees
// lengths, never tokens.
package planner
