// Package status reports the state of a run. Once per second it combines the values of the run, the Flight server,
// the dead letters and the other daemons into the results of the actions status and history. No part of a run depends
// on it.
package status

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/history"
	"loaderd/loader"
	"loaderd/loader/census"
	"loaderd/loader/diagnosis"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// Run is the watched run.
type Run interface {
	Stats() loader.Stats
	Info() loader.Info
	Verdict() diagnosis.Verdict
	Rates() state.Rates
	Ranks() census.View
	// Waits reports whether a rank waits for a step that is not planned.
	Waits() bool
}

// Plan is the run's plan log.
type Plan interface {
	// Scan calls f with each record from position from up to the present last one, in order.
	Scan(ctx context.Context, from uint64, f func(position uint64, record []byte) error) error
}

// Options are the sources of the status and the identity of the daemon.
type Options struct {
	Run     Run
	Plan    Plan
	Ranks   func() []api.RankStatus // throughput of this daemon's streams; Run.Ranks has the ranks
	Dead    func() api.DeadStatus   // may be nil
	Bus     Bus                     // may be nil: no other daemons
	Events  *Events
	Log     *slog.Logger
	Bounds  Bounds
	Name    string // of this daemon
	Version string
	Flight  func() string // the address for ranks; called for a request, or after Serve
	HTTP    string        // the address of its page
	// Pulls returns the state of pulled sources. It may be nil.
	Pulls func() []api.PullStatus
}

// Bounds are the limits of the stages of a flow.
type Bounds struct {
	Window, Ahead int
	BufferBytes   int64
	Method        string
}

// Watch watches a run.
type Watch struct {
	Options
	others others

	looking sync.Mutex // held during look; guards status.Time for callers of look
	mu      sync.Mutex
	status  api.Status
	steps   *history.Steps
	times   *history.Times
	at      uint64 // the last plan record that steps contains
	term    uint64
	leader  string
	failed  error // why reading of the plan has stopped
	history api.History
	made    time.Time // time at which history was made
}

// New returns a Watch. It reads nothing before Serve or a request.
func New(o Options) *Watch {
	return &Watch{Options: o, others: others{of: map[string]heard{}}, steps: history.NewSteps(), times: history.NewTimes()}
}

const (
	// every is the interval at which the run is sampled.
	every = time.Second
	// fresh is the maximum age of a Status.
	fresh = every / 5
	// remake is the maximum age of a History.
	remake = 2 * time.Second
	// pace limits reading of the existing plan to a part of the time, because a daemon that has just started has other
	// work: each batch is followed by a pause of pace times its duration.
	pace = 4
)

// Serve watches until ctx is done.
func (w *Watch) Serve(ctx context.Context) {
	if w.Bus != nil {
		if stop, err := w.Bus.Subscribe(w.hear); err != nil {
			w.Log.Warn("cannot receive heartbeats of other daemons", "error", err)
		} else {
			defer stop()
			defer w.say(word{DaemonStatus: api.DaemonStatus{Name: w.Name}, Left: true})
		}
	}
	var reading sync.WaitGroup
	reading.Go(func() { w.read(ctx) })
	defer reading.Wait()
	tick := time.NewTicker(every)
	defer tick.Stop()
	told := uint64(0)
	for {
		w.looking.Lock()
		sample := w.look(time.Now())
		w.looking.Unlock()
		w.mu.Lock()
		w.times.Add(sample)
		w.mu.Unlock()
		if w.Bus != nil {
			told = w.tell(told)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// read follows the plan from its first record on.
func (w *Watch) read(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		more, err := w.readOn(ctx)
		if err != nil && ctx.Err() == nil {
			w.mu.Lock()
			first := w.failed == nil
			w.failed = err
			w.mu.Unlock()
			if first {
				w.Log.Warn("cannot continue the history of the run", "error", err)
			}
		}
		pause := every
		if more {
			pause = pace * time.Since(began)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// batch is the number of records that are read at a time.
const batch = 256

// enough stops a scan.
type enough struct{}

func (enough) Error() string { return "enough" }

// readOn reads up to batch more records, and reports whether it read as many.
func (w *Watch) readOn(ctx context.Context) (more bool, err error) {
	w.mu.Lock()
	from := w.at + 1
	w.mu.Unlock()
	n := 0
	err = w.Plan.Scan(ctx, from, func(position uint64, record []byte) error {
		e, err := planrecord.Decode(record)
		if err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := w.steps.Take(e); err != nil {
			return err
		}
		if t, ok := e.(planrecord.Term); ok {
			w.term, w.leader = position, t.Daemon
		}
		w.at = position
		if n++; n == batch {
			return enough{}
		}
		return nil
	})
	if errors.As(err, new(enough)) {
		return true, nil
	}
	return false, err
}

// hear processes a heartbeat.
func (w *Watch) hear(b []byte) {
	said, err := decodeWord(b)
	if err != nil || said.Name == w.Name {
		return
	}
	w.Events.others(said.Name, said.Events)
	if w.others.take(said, time.Now()) {
		w.say(w.word(0)) // it lacks this daemon's earlier events
	}
}

// tell sends a heartbeat with the events after number since, and returns the number of the last event.
func (w *Watch) tell(since uint64) uint64 {
	_, last := w.Events.since(since)
	w.say(w.word(since))
	return last
}

func (w *Watch) word(since uint64) word {
	streams := w.Ranks()
	events, _ := w.Events.since(since)
	own := w.own(streams)
	return word{DaemonStatus: own, Readers: own.Ranks, Reading: furthestBehind(streams), Sent: own.Bytes, Events: events}
}

func (w *Watch) say(said word) {
	b, err := json.Marshal(said)
	if err == nil {
		_ = w.Bus.Publish(b) // the next heartbeat follows in a second
	}
}

// Status implements arrowout.Watcher.
func (w *Watch) Status() api.Status {
	w.looking.Lock()
	if now := time.Now(); now.Sub(w.status.Time) > fresh {
		w.look(now)
	}
	w.looking.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Term returns the last term of the plan, as far as it has been read.
func (w *Watch) Term() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.term
}

// History implements arrowout.Watcher.
func (w *Watch) History() api.History {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.made) > remake {
		w.made, w.history = now, api.History{}
		w.steps.Fill(&w.history)
		w.times.Fill(&w.history)
	}
	return w.history
}
