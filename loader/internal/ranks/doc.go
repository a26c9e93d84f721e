// Package ranks tracks the ranks of all daemons of a run.
package ranks
