// Package testscale says how much of what a test repeats is run: make test runs a part, make test-all everything.
package testscale

import "os"

// All reports whether everything is to be run: LOADERD_TEST is all.
func All() bool { return os.Getenv("LOADERD_TEST") == "all" }

// Of returns part, or whole where everything is to be run.
func Of[T any](part, whole T) T {
	if All() {
		return whole
	}
	return part
}
