// Package backend declares what a run works with: document streams, the plan log, checkpoints, low watermarks, the
// election of a leader, the messages between daemons, and the options of serving. Packages below stream implement it.
package backend
