package publish_test

import (
	"flag"
	"testing"

	"loaderd/internal/natstest"
	"loaderd/internal/testscale"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !testscale.All() && flag.Set("rapid.checks", "25") != nil { // each of the few checks here starts a server
		panic("rapid has no flag rapid.checks")
	}
	natstest.VerifyTestMain(m)
}
