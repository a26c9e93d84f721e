package session

import (
	"errors"
	"log/slog"
	"testing"
	"time"

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

// registry returns a registry without limits.
func registry() *Registry {
	return New(Limits{Streams: 1 << 20, StreamsPerIdentity: 1 << 20, Bytes: 1 << 40}, func(fault.Reason) bool {
		return false
	}, slog.New(slog.DiscardHandler))
}

// opened opens a stream of a client; ended receives the error that ends the stream.
func opened(t *testing.T, r *Registry, at state.RankID, client string) (s *Session, ended chan error, err error) {
	t.Helper()
	ended = make(chan error, 1)
	x := ReaderInfo{RankID: at, Client: client, Address: "10.0.0.1:1"}
	s, err = r.Open(t.Context(), x, func(err error) { ended <- err })
	return s, ended, err
}

// holding opens a stream that takes a place; ended receives the error that ends the stream.
func holding(t *testing.T, r *Registry, at state.RankID, client string) (s *Session, ended chan error) {
	t.Helper()
	s, ended, err := opened(t, r, at, client)
	if err == nil {
		err = s.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, ended
}

func TestRankHolder_SecondSessionIsRefused(t *testing.T) {
	r, at := registry(), state.RankID{Job: "trainer", Rank: 0, World: 2}
	waits := make(chan struct{})
	r.duplicateTimer = func() <-chan time.Time { close(waits); return nil }
	_, ended := holding(t, r, at, "a")
	go func() {
		<-waits
		r.RecordReport(at, "b") // no such client reads
		r.RecordReport(at, "a")
	}()
	_, _, err := opened(t, r, at, "b")
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

// A report of another client does not count as a report of the client that has the place.
func TestRankHolder_IgnoresReportOfAnotherSession(t *testing.T) {
	r, at := registry(), state.RankID{Job: "trainer", Rank: 0, World: 2}
	holding(t, r, at, "a")
	reported := r.rankHolders[at].reported
	r.RecordReport(at, "b")
	select {
	case <-reported:
		t.Error("the holder counts as one that reports")
	default:
	}
	r.RecordReport(at, "a")
	<-reported
}

func TestRankHolder_IdleHolderIsReplaced(t *testing.T) {
	r, at := registry(), state.RankID{Job: "trainer", Rank: 0, World: 2}
	over := make(chan time.Time)
	close(over)
	r.duplicateTimer = func() <-chan time.Time { return over }
	first, ended := holding(t, r, at, "a")
	holding(t, r, at, "b")
	if err := <-ended; reasonIn(err) != fault.Replaced {
		t.Errorf("it ends with %v", err)
	}
	first.Close(t.Context(), nil)
	if r.rankHolders[at].Client != "b" {
		t.Error("the newcomer has lost the place")
	}
}

func TestRankHolder_HolderLeavesWhileOtherWaits(t *testing.T) {
	r, at := registry(), state.RankID{Job: "trainer", Rank: 0, World: 2}
	first, _ := holding(t, r, at, "a")
	r.duplicateTimer = func() <-chan time.Time { first.Close(t.Context(), nil); return nil }
	if _, _, err := opened(t, r, at, "b"); err != nil || r.rankHolders[at] != nil {
		t.Errorf("%v, %+v", err, r.rankHolders[at])
	}
}

func TestRankHolder_ReconnectingSessionReplacesItself(t *testing.T) {
	r, at := registry(), state.RankID{Job: "trainer", Rank: 0, World: 2}
	r.duplicateTimer = func() <-chan time.Time {
		t.Error("a client waits for its own report")
		over := make(chan time.Time)
		close(over)
		return over
	}
	_, ended := holding(t, r, at, "a")
	holding(t, r, at, "a")
	if reasonIn(<-ended) != fault.Replaced {
		t.Error("the former stream continues")
	}
}

func TestRankHolder_PeersShareRank(t *testing.T) {
	r := registry()
	for peer := range 3 {
		at := state.RankID{Job: "trainer", Rank: 0, World: 2, Peer: peer}
		holding(t, r, at, string(rune('a'+peer)))
	}
	for range 2 { // clients without sessions take no place
		s, ended := holding(t, r, state.RankID{Job: "trainer", Rank: 0, World: 2}, "")
		defer s.Close(t.Context(), nil)
		if len(ended) > 0 {
			t.Error(<-ended)
		}
	}
}
