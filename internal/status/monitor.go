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
	// HasWaitingRank reports whether a rank waits for a step that is not planned.
	HasWaitingRank() bool
}

// Plan is the run's plan log.
type Plan interface {
	// Scan calls f with each record from position from up to the present last one, in order.
	Scan(ctx context.Context, from uint64, f func(position uint64, record []byte) error) error
}

// Options are the sources of the status and the identity of the daemon.
type Options struct {
	Run          Run
	Plan         Plan
	LocalStreams func() []api.RankStatus // throughput of this daemon's streams; Run.Ranks has the ranks
	Dead         func() api.DeadStatus   // may be nil
	Bus          Bus                     // may be nil: no other daemons
	Events       *Events
	Log          *slog.Logger
	Bounds       Bounds
	Name         string // of this daemon
	Version      string
	Flight       func() string // the address for ranks; called for a request, or after Serve
	HTTP         string        // the address of its page
	// Pulls returns the state of pulled sources. It may be nil.
	Pulls func() []api.PullStatus
}

// Bounds are the limits of the stages of a flow.
type Bounds struct {
	Window, Ahead int
	BufferBytes   int64
	Method        string
}

// Monitor watches a run.
type Monitor struct {
	Options
	peers peers

	updateMu     sync.Mutex // held during look; guards status.Time for callers of look
	mu           sync.Mutex
	status       api.Status
	steps        *history.Steps
	times        *history.Times
	planPosition uint64 // the last plan record that steps contains
	term         uint64
	leader       string
	planErr      error // why reading of the plan has stopped
	history      api.History
	historyTime  time.Time // time at which history was made
}

// New returns a Watch. It reads nothing before Serve or a request.
func New(o Options) *Monitor {
	return &Monitor{Options: o, peers: peers{byName: map[string]peer{}}, steps: history.NewSteps(),
		times: history.NewTimes()}
}

const (
	// sampleInterval is the interval at which the run is sampled.
	sampleInterval = time.Second
	// maxStatusAge is the maximum age of a Status.
	maxStatusAge = sampleInterval / 5
	// maxHistoryAge is the maximum age of a History.
	maxHistoryAge = 2 * time.Second
	// pauseFactor limits reading of the existing plan to a part of the time, because a daemon that has just started has
	// other work: each batch is followed by a pause of pace times its duration.
	pauseFactor = 4
)

// Serve watches until ctx is done.
func (w *Monitor) Serve(ctx context.Context) {
	if w.Bus != nil {
		if stop, err := w.Bus.Subscribe(w.receiveHeartbeat); err != nil {
			w.Log.Warn("cannot receive heartbeats of other daemons", "error", err)
		} else {
			defer stop()
			defer w.publishHeartbeat(heartbeat{DaemonStatus: api.DaemonStatus{Name: w.Name}, Left: true})
		}
	}
	var reading sync.WaitGroup
	reading.Go(func() { w.followPlan(ctx) })
	defer reading.Wait()
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	told := uint64(0)
	for {
		w.updateMu.Lock()
		sample := w.update(time.Now())
		w.updateMu.Unlock()
		w.mu.Lock()
		w.times.Add(sample)
		w.mu.Unlock()
		if w.Bus != nil {
			told = w.sendHeartbeat(told)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// followPlan follows the plan from its first record on.
func (w *Monitor) followPlan(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		more, err := w.readPlan(ctx)
		if err != nil && ctx.Err() == nil {
			w.mu.Lock()
			first := w.planErr == nil
			w.planErr = err
			w.mu.Unlock()
			if first {
				w.Log.Warn("cannot continue the history of the run", "error", err)
			}
		}
		pause := sampleInterval
		if more {
			pause = pauseFactor * time.Since(began)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// scanBatch is the number of records that are read at a time.
const scanBatch = 256

// stopScan stops a scan.
type stopScan struct{}

func (stopScan) Error() string { return "enough" }

// readPlan reads up to batch more records, and reports whether it read as many.
func (w *Monitor) readPlan(ctx context.Context) (more bool, err error) {
	w.mu.Lock()
	from := w.planPosition + 1
	w.mu.Unlock()
	n := 0
	err = w.Plan.Scan(ctx, from, func(position uint64, record []byte) error {
		e, err := planrecord.Decode(record)
		if err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := w.steps.Add(e); err != nil {
			return err
		}
		if t, ok := e.(planrecord.Term); ok {
			w.term, w.leader = position, t.Daemon
		}
		w.planPosition = position
		if n++; n == scanBatch {
			return stopScan{}
		}
		return nil
	})
	if errors.As(err, new(stopScan)) {
		return true, nil
	}
	return false, err
}

// receiveHeartbeat processes a heartbeat.
func (w *Monitor) receiveHeartbeat(b []byte) {
	said, err := decodeHeartbeat(b)
	if err != nil || said.Name == w.Name {
		return
	}
	w.Events.addRemote(said.Name, said.Events)
	if w.peers.store(said, time.Now()) {
		w.publishHeartbeat(w.newHeartbeat(0)) // it lacks this daemon's earlier events
	}
}

// sendHeartbeat sends a heartbeat with the events after number since, and returns the number of the last event.
func (w *Monitor) sendHeartbeat(since uint64) uint64 {
	_, last := w.Events.localSince(since)
	w.publishHeartbeat(w.newHeartbeat(since))
	return last
}

func (w *Monitor) newHeartbeat(since uint64) heartbeat {
	streams := w.LocalStreams()
	events, _ := w.Events.localSince(since)
	own := w.daemonStatus(streams)
	return heartbeat{DaemonStatus: own, Readers: own.Ranks, Reading: furthestBehind(streams), Sent: own.Bytes,
		Events: events}
}

func (w *Monitor) publishHeartbeat(said heartbeat) {
	b, err := json.Marshal(said)
	if err == nil {
		_ = w.Bus.Publish(b) // the next heartbeat follows in a second
	}
}

// Status implements arrowout.Watcher.
func (w *Monitor) Status() api.Status {
	w.updateMu.Lock()
	if now := time.Now(); now.Sub(w.status.Time) > maxStatusAge {
		w.update(now)
	}
	w.updateMu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Term returns the last term of the plan, as far as it has been read.
func (w *Monitor) Term() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.term
}

// History implements arrowout.Watcher.
func (w *Monitor) History() api.History {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.historyTime) > maxHistoryAge {
		w.historyTime, w.history = now, api.History{}
		w.steps.Fill(&w.history)
		w.times.Fill(&w.history)
	}
	return w.history
}
