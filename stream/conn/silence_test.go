package conn_test

import (
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/internal/testscale"
)

// A server that says nothing is left for another one that the client knows. The only one is not: it may just be slow.
func TestASilentServerIsLeft(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	several := c.Store()
	frozen := 0
	for i := range 3 {
		if c.URL(i) == several.ClientURL() {
			frozen = i
		}
	}
	one := c.Store(frozen)
	began := time.Now()
	c.Freeze(frozen)
	natstest.Soon(t, "the client is connected to another server", func() bool {
		return several.Status().Connected && several.ClientURL() != c.URL(frozen)
	})
	took := time.Since(began)
	t.Logf("it left the silent server after %v", took)
	if took > 20*time.Second { // the client library does after 30 s
		t.Error("it does not leave it by itself")
	}
	if st := one.Status(); !st.Connected {
		t.Errorf("who knows no other server has left it: %s", st.Error)
	}
	c.Thaw(frozen)
	if _, err := one.JetStream().AccountInfo(natstest.Within(t, 20*time.Second)); err != nil {
		t.Errorf("the connection to the only server: %v", err)
	}
}

// A server that is cut off from the others answers for long as if it was not. Its clients go to the majority.
func TestAServerThatIsCutOffIsLeft(t *testing.T) {
	if !testscale.All() {
		t.Skip("it takes half a minute: make test-all")
	}
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	s := c.Store()
	cutOff := 0
	for i := range 3 {
		if c.URL(i) == s.ClientURL() {
			cutOff = i
		}
	}
	began := time.Now()
	c.Isolate(cutOff)
	natstest.Soon(t, "the client is connected to another server", func() bool {
		return s.Status().Connected && s.ClientURL() != c.URL(cutOff)
	})
	t.Logf("it left the server after %v", time.Since(began))
	if _, err := s.EnsureDocuments(natstest.Context(t)); err != nil {
		t.Error(err)
	}
}
