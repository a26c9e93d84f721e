// Package permissions_test checks the permissions of the NATS users of daemons and producers.
package permissions_test

import (
	"os"
	"testing"

	"loaderd/internal/natstest"
)

// TestMain runs the tests in the root of the repository, because they read its pages and templates.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	natstest.VerifyTestMain(m)
}
