package loader_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
)

// The state of the connection is refreshed every second, and a wait for documents reports the latest one.
func TestConnection_StateIsRefreshedEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(config("concat"))
		began := time.Now()
		w.edges = func(e *backend.Backends) {
			e.Sources = onlySource{Documents: oddDocs{memDocs: w.docs, unread: true}}
			e.Connection = func() backend.Connection {
				if time.Since(began) < 5*time.Second {
					return backend.Connection{Up: true}
				}
				return backend.Connection{Since: began.Add(5 * time.Second), Error: "EOF"}
			}
		}
		run, _ := w.start(t)
		time.Sleep(4500 * time.Millisecond)
		if v := run.Verdict(); v.Reason == fault.SourceDown {
			t.Errorf("the connection is up: %+v", v)
		}
		time.Sleep(2 * time.Second)
		if v := run.Verdict(); v.Reason != fault.SourceDown || !strings.Contains(v.Detail, "EOF") {
			t.Errorf("the connection is lost: %+v", v)
		}
	})
}

// A run stops while the check of its connection hangs.
func TestConnection_HangingCheckDoesNotDelayStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(config("concat"))
		release := make(chan struct{})
		w.edges = func(e *backend.Backends) {
			e.Connection = func() backend.Connection {
				<-release
				return backend.Connection{Up: true}
			}
		}
		_, stop := w.start(t)
		time.Sleep(time.Second)
		ended := make(chan error, 1)
		go func() { ended <- stop() }()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the run waits for the check of its connection")
		}
		close(release)
	})
}
