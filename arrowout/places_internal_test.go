package arrowout

import (
	"errors"
	"testing"
	"time"

	"loaderd/internal/access"
	"loaderd/loader/fault"
	"loaderd/loader/state"
)

func reasonIn(err error) fault.Reason {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// holding has a client take a place; ended gets why its stream is ended.
func holding(t *testing.T, p *places, at state.Place, session string) (ended chan error, left func()) {
	t.Helper()
	ended = make(chan error, 1)
	left, err := p.take(access.Identity{}, at, session, "10.0.0.1:1", func(err error) { ended <- err })
	if err != nil {
		t.Fatal(err)
	}
	return ended, left
}

func TestPlaces_SecondSessionIsRefused(t *testing.T) {
	p, at := newPlaces(), state.Place{Job: "trainer", Rank: 0, World: 2}
	waits := make(chan struct{})
	p.silence = func() <-chan time.Time { close(waits); return nil }
	ended, _ := holding(t, p, at, "a")
	go func() {
		<-waits
		p.report(at, "b") // no such client reads
		p.report(at, "a")
	}()
	err := p.admit(t.Context(), access.Identity{}, at, "b")
	if reasonIn(err) != fault.DuplicateRank {
		t.Fatal(err)
	}
	if e := new(fault.Error); errors.As(err, &e) && (e.Facts["address"] != "10.0.0.1:1" || e.Facts["rank"] != "0") {
		t.Errorf("%+v", e)
	}
	if len(ended) > 0 {
		t.Errorf("the first client is ended: %v", <-ended)
	}
}

// The report of another client is no sign of life of the one that has the place.
func TestPlaces_ReportOfAnotherSession(t *testing.T) {
	p, at := newPlaces(), state.Place{Job: "trainer", Rank: 0, World: 2}
	holding(t, p, at, "a")
	reported := p.of[at].reported
	p.report(at, "b")
	select {
	case <-reported:
		t.Error("the holder counts as one that reports")
	default:
	}
	p.report(at, "a")
	<-reported
}

func TestPlaces_SilentHolderIsReplaced(t *testing.T) {
	p, at := newPlaces(), state.Place{Job: "trainer", Rank: 0, World: 2}
	over := make(chan time.Time)
	close(over)
	p.silence = func() <-chan time.Time { return over }
	ended, left := holding(t, p, at, "a")
	if err := p.admit(t.Context(), access.Identity{}, at, "b"); err != nil {
		t.Fatal(err)
	}
	holding(t, p, at, "b")
	if err := <-ended; reasonIn(err) != fault.Replaced {
		t.Errorf("it ends with %v", err)
	}
	left()
	if p.of[at].session != "b" {
		t.Error("the newcomer has lost the place")
	}
}

func TestPlaces_HolderLeavesMeanwhile(t *testing.T) {
	p, at := newPlaces(), state.Place{Job: "trainer", Rank: 0, World: 2}
	_, left := holding(t, p, at, "a")
	p.silence = func() <-chan time.Time { left(); return nil }
	if err := p.admit(t.Context(), access.Identity{}, at, "b"); err != nil || p.of[at] != nil {
		t.Errorf("%v, %+v", err, p.of[at])
	}
}

func TestPlaces_ReconnectingSessionReplacesItself(t *testing.T) {
	p, at := newPlaces(), state.Place{Job: "trainer", Rank: 0, World: 2}
	p.silence = func() <-chan time.Time {
		t.Error("a client waits for its own report")
		over := make(chan time.Time)
		close(over)
		return over
	}
	ended, _ := holding(t, p, at, "a")
	if err := p.admit(t.Context(), access.Identity{}, at, "a"); err != nil {
		t.Fatal(err)
	}
	holding(t, p, at, "a")
	if reasonIn(<-ended) != fault.Replaced {
		t.Error("the former stream continues")
	}
}

func TestPlaces_PeersShareARank(t *testing.T) {
	p := newPlaces()
	for peer := range 3 {
		at := state.Place{Job: "trainer", Rank: 0, World: 2, Peer: peer}
		if err := p.admit(t.Context(), access.Identity{}, at, string(rune('a'+peer))); err != nil {
			t.Fatal(err)
		}
		holding(t, p, at, string(rune('a'+peer)))
	}
	for range 2 { // clients without sessions take no place
		left, err := p.take(access.Identity{}, state.Place{Job: "trainer", Rank: 0, World: 2}, "", "", func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		left()
	}
}
