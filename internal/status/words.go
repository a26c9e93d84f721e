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

// word is what a daemon says of itself once a second, so that every daemon can show all of them.
type word struct {
	api.DaemonStatus
	Readers int              `json:"readers"` // all of its ranks
	Reading []api.RankStatus `json:"reading"` // what the streams get of those that are furthest behind
	Sent    float64          `json:"sent"`    // bytes a second
	Events  []api.Event      `json:"events,omitempty"`
	Left    bool             `json:"left,omitempty"` // it stops
}

// Bounds of what others say. Whoever reaches the NATS servers may say anything, in any daemon's name, unless the run
// has a plan key.
const (
	maxDaemons = 256
	maxName    = 255
)

// decodeWord reads a word; it refuses one that no daemon says.
func decodeWord(b []byte) (w word, err error) {
	if err := json.Unmarshal(b, &w); err != nil {
		return w, err
	}
	switch {
	case w.Name == "":
		return w, errors.New("a word of nobody")
	case len(w.Reading) > api.MaxRanks || len(w.Events) > api.MaxEvents:
		return w, fmt.Errorf("%d ranks, %d events", len(w.Reading), len(w.Events))
	}
	texts := []string{w.Name, w.Flight, w.HTTP, w.Version}
	for i, r := range w.Reading {
		if r.World < 1 || r.Rank < 0 || r.Rank >= r.World || planrecord.ValidKeeper(r.Job) != nil {
			return w, fmt.Errorf("rank %d of %d", r.Rank, r.World)
		}
		texts = append(texts, r.Who, r.Address)
		w.Reading[i].Daemon = w.Name
	}
	for _, e := range w.Events {
		texts = append(texts, e.Kind)
		if len(e.Text) > 2*maxText || len(e.Do) > 2*maxText {
			return w, errors.New("an event of too many words")
		}
	}
	for _, t := range texts {
		if len(t) > maxName || strings.ContainsFunc(t, unicode.IsControl) {
			return w, fmt.Errorf("%.40q is no name", t)
		}
	}
	return w, nil
}

// goneAfter is when a daemon that says nothing is left out.
const goneAfter = 30 * time.Second

// others are the other daemons of the run, as they said of themselves.
type others struct {
	mu sync.Mutex
	of map[string]heard // by name
}

type heard struct {
	word
	at time.Time
}

// take takes in a word, and reports whether it is the first of its daemon.
func (o *others) take(w word, now time.Time) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w.Left {
		delete(o.of, w.Name)
		return false
	}
	_, known := o.of[w.Name]
	if !known && len(o.of) >= maxDaemons {
		return false
	}
	w.Events = nil // they are kept elsewhere
	o.of[w.Name] = heard{w, now}
	return !known
}

// all returns what is known, without those that have fallen silent long ago.
func (o *others) all(now time.Time) (out []heard) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, h := range o.of {
		if now.Sub(h.at) > goneAfter {
			delete(o.of, name)
			continue
		}
		out = append(out, h)
	}
	return out
}
