package publish_test

import (
	"testing"

	"loaderd/internal/natstest"
	"loaderd/internal/testscale"
)

func TestMain(m *testing.M) {
	testscale.RapidChecks("25") // each of the few checks here starts a server
	natstest.VerifyTestMain(m)
}
