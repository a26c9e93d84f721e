// Package leader plans a run. It feeds the planner from the streams of the sources, appends the planned steps to the
// plan log, stores checkpoints, and purges documents that are no longer needed.
package leader
