// Package endtoend_test runs whole daemons in the test process and reads what they serve.
package endtoend_test

import (
	"testing"

	"loaderd/internal/natstest"
)

func TestMain(m *testing.M) { natstest.VerifyTestMain(m) }
