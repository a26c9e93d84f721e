package planner_test

import (
	"testing"

	"loaderd/internal/testscale"
)

func TestMain(m *testing.M) {
	testscale.RapidChecks("40")
	m.Run()
}
