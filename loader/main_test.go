package loader_test

import (
	"testing"

	"go.uber.org/goleak"

	"loaderd/internal/testscale"
)

func TestMain(m *testing.M) {
	testscale.RapidChecks("40")
	goleak.VerifyTestMain(m)
}
