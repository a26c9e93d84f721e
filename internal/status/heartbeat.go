package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"loaderd/internal/api"
	"loaderd/loader/planrecord"
)

// Bus carries status messages between the daemons of a run. A message may be lost.
type Bus interface {
	Publish(message []byte) error
	Subscribe(f func(message []byte)) (stop func(), err error)
}

// heartbeat is a heartbeat, which a daemon sends once per second. From the heartbeats every daemon can show all
// daemons.
type heartbeat struct {
	api.DaemonStatus
	Readers int              `json:"readers"` // all of its ranks
	Reading []api.RankStatus `json:"reading"` // throughput of its ranks furthest behind
	Sent    float64          `json:"sent"`    // bytes per second
	Events  []api.Event      `json:"events,omitempty"`
	Left    bool             `json:"left,omitempty"` // it stops
}

// Limits of received heartbeats. Without a plan key, any client of the NATS servers can send anything in the name of
// any daemon.
const (
	maxDaemons   = 256
	maxTextBytes = 255
)

// decodeHeartbeat decodes a heartbeat. It rejects one that no daemon sends.
func decodeHeartbeat(b []byte) (w heartbeat, err error) {
	if err := json.Unmarshal(b, &w); err != nil {
		return w, err
	}
	switch {
	case w.Name == "":
		return w, errors.New("a heartbeat without a name")
	case len(w.Reading) > api.MaxRanks || len(w.Events) > api.MaxEvents:
		return w, fmt.Errorf("%d ranks, %d events", len(w.Reading), len(w.Events))
	}
	texts := []string{w.Name, w.Flight, w.HTTP, w.Version}
	for i, r := range w.Reading {
		if r.World < 1 || r.Rank < 0 || r.Rank >= r.World || planrecord.ValidJob(r.Job) != nil {
			return w, fmt.Errorf("rank %d of %d", r.Rank, r.World)
		}
		texts = append(texts, r.Identity, r.Address)
		w.Reading[i].Daemon = w.Name
	}
	for _, e := range w.Events {
		texts = append(texts, e.Kind)
		if len(e.Text) > 2*maxText || len(e.Do) > 2*maxText {
			return w, errors.New("an event of too many words")
		}
	}
	for _, t := range texts {
		if len(t) > maxTextBytes || strings.ContainsFunc(t, unicode.IsControl) {
			return w, fmt.Errorf("%.40q is no name", t)
		}
	}
	return w, nil
}

// heartbeatTimeout is the time without heartbeats after which a daemon is removed.
const heartbeatTimeout = 30 * time.Second

// peers are the other daemons of the run, by their last heartbeats.
type peers struct {
	mu     sync.Mutex
	byName map[string]peer // by name
}

type peer struct {
	heartbeat
	receivedAt time.Time
}

// store stores a heartbeat, and reports whether it is the first of its daemon.
func (o *peers) store(w heartbeat, now time.Time) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w.Left {
		delete(o.byName, w.Name)
		return false
	}
	_, known := o.byName[w.Name]
	if !known && len(o.byName) >= maxDaemons {
		return false
	}
	w.Events = nil // Events stores them
	o.byName[w.Name] = peer{w, now}
	return !known
}

// current returns the last heartbeats, and removes daemons that have sent none for heartbeatTimeout.
func (o *peers) current(now time.Time) (out []peer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, h := range o.byName {
		if now.Sub(h.receivedAt) > heartbeatTimeout {
			delete(o.byName, name)
			continue
		}
		out = append(out, h)
	}
	return out
}
