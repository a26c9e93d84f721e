// Package loader turns a stream of documents into the steps of a training run, and steps into rows of tokens.
//
// A run has a leader, which feeds the planner (package plan) from a Source and writes every step to the plan log before
// anyone can read it, and followers, which read the plan and assemble rows for readers. A Run is one of each in one
// process.
package loader
