package docstream_test

import (
	"testing"

	"loaderd/internal/natstest"
)

func TestMain(m *testing.M) { natstest.VerifyTestMain(m) }
