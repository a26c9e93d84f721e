package loader_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"loaderd/internal/testscale"
)

func TestMain(m *testing.M) {
	// Before flags are parsed, so that -rapid.checks has precedence.
	if !testscale.All() && flag.Set("rapid.checks", "40") != nil {
		panic("rapid has no flag rapid.checks")
	}
	goleak.VerifyTestMain(m)
}
