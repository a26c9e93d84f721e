package conn_test

import (
	"context"
	"testing"
	"time"

	"loaderd/internal/natstest"
)

// While the server's health check hangs with its disk, requests run into their own limits.
func TestStatus_HangingHealthCheckBlocksNoRequest(t *testing.T) {
	t.Parallel()
	c, in := dialInside(t)
	asked, release := make(chan struct{}), make(chan struct{})
	in.health = func() error {
		close(asked)
		<-release
		return nil
	}
	status := make(chan struct{})
	go func() {
		defer close(status)
		c.Status()
	}()
	<-asked
	attempt := make(chan error, 1)
	go func() {
		attempt <- c.Attempt(natstest.Context(t), time.Minute, func(context.Context) error { return nil })
	}()
	select {
	case err := <-attempt:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("a request waits for the health check")
	}
	close(release)
	<-status
}
