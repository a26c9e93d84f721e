// Package permissions_test checks what the NATS users of daemons and producers may do.
package permissions_test

import (
	"os"
	"testing"

	"loaderd/internal/natstest"
)

// TestMain runs the tests in the root of the repository, whose pages and templates they read.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	natstest.VerifyTestMain(m)
}
