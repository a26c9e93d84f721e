// Package backend declares the dependencies of a run: document streams, the plan log, checkpoints, low watermarks,
// leader election, messages between daemons, and the options of serving. Packages below stream implement it.
package backend
