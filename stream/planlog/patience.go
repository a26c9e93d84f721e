package planlog

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
)

// absence is what is missing of a run that has a floor.
type absence int

const (
	present  absence = iota // its plan is there, or may be
	notBegun                // its plan has no record
	notFound                // there is no plan of it
)

// beginPatience is how long a run may take from its floor to the first record of its plan. Who began it and was killed in between leaves a
// floor that would hold the documents for ever.
var beginPatience = 10 * time.Minute

// gonePatience is how long a plan has to be missing before it counts as deleted: a server that has just come up, or is cut off, does not
// know all streams.
var gonePatience = 30 * time.Second

// absence looks for the plan of a run that has a floor; by is the fence of who recorded it, the lowest when that is unknown.
func (f *Floors) absence(ctx context.Context, run string, by fence) (a absence, err error) {
	err = f.store.Retry(ctx, "look for the plan of run "+run, func(ctx context.Context) error {
		plan, err := f.store.JetStream().Stream(ctx, f.store.Config().PlanStream(run).Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			a = notFound
			return nil
		}
		if err != nil {
			return err
		}
		info := plan.CachedInfo()
		a = present
		if info.State.LastSeq == 0 && (by.Term == 0 || stream.Created(info).UnixNano() > by.Plan) {
			a = notBegun
		}
		return nil
	})
	return a, err
}

// patience remembers since when something has been missing of runs, by this process's own clock.
type patience map[string]missing

type missing struct {
	floor floor // at that time
	what  absence
	since time.Time
}

// over reports whether something has been missing of a run for so long, each time that it was looked for, that its floor does not count any
// more. A floor that has changed meanwhile counts anew.
func (p *patience) over(run string, is floor, what absence) bool {
	if what == present {
		delete(*p, run)
		return false
	}
	before, known := (*p)[run]
	if !known || before.floor != is || before.what != what {
		if *p == nil {
			*p = patience{}
		}
		before = missing{is, what, time.Now()}
		(*p)[run] = before
	}
	limit := gonePatience
	if what == notBegun {
		limit = beginPatience
	}
	return time.Since(before.since) >= limit
}
