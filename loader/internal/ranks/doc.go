// Package ranks keeps the ranks of all daemons of a run.
package ranks
