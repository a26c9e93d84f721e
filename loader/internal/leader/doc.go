// Package leader plans a run. It feeds the planner from the streams of the sources and appends the steps to the plan
// log. It also stores checkpoints, and purges documents that are no longer needed.
package leader
