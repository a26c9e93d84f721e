// Package testscale sets how many repetitions a test runs: make test runs a part, make test-all runs all.
package testscale

import (
	"flag"
	"os"
)

// All reports whether all repetitions run, which LOADERD_TEST=all sets.
func All() bool { return os.Getenv("LOADERD_TEST") == "all" }

// Of returns whole if all repetitions run, else part.
func Of[T any](part, whole T) T {
	if All() {
		return whole
	}
	return part
}

// RapidChecks sets how many cases a property of package rapid is checked with, unless all repetitions run. TestMain
// calls it before flags are parsed, so that -rapid.checks has precedence.
func RapidChecks(part string) {
	if !All() && flag.Set("rapid.checks", part) != nil {
		panic("rapid has no flag rapid.checks")
	}
}
