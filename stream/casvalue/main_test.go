package casvalue

import (
	"testing"

	"loaderd/internal/natstest"
)

func TestMain(m *testing.M) { natstest.VerifyTestMain(m) }
