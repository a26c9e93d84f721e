// Package leader plans a run: it feeds the planner from the streams of the sources, appends its steps to the plan log,
// stores checkpoints, and purges documents that nothing needs any longer.
package leader
