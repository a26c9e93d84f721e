// Package plan is what a run's plan is made by and made of: the configuration that shapes it, the Planner, the Applier that gives it documents and
// controls, the steps that come out, and the records in which all of it stands in the plan log.
//
// It is pure: no clock, no goroutine, no I/O, and no randomness that is not keyed by the configuration. It sees lengths, never tokens.
package plan
