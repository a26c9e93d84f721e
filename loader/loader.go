// Package loader turns a stream of documents into the steps of a training run, and steps into rows of tokens.
//
// A run has a leader and followers. The leader feeds the planner (package planner) from document streams, and writes
// every step to the plan log before it can be read. Followers read the plan and assemble rows for readers. A Run is
// one of each in one process.
package loader
