package retention

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
	"loaderd/stream/casvalue"
)

// absence is what is missing of a run that has a low watermark.
type absence int

const (
	present  absence = iota // its plan exists, or may exist
	notBegun                // its plan has no record
	notFound                // no plan of it exists
)

// beginTimeout is how long a run may take from its watermark to the first record of its plan. A daemon that is killed
// in between leaves a watermark that would retain the documents forever.
var beginTimeout = 10 * time.Minute

// deletedTimeout is how long a plan must be missing before it counts as deleted. A server that has just started, or
// is isolated, does not have all streams.
var deletedTimeout = 30 * time.Second

// checkAbsence looks for the plan of a run that has a low watermark. by is the fence of the daemon that recorded it.
func (f *LowWatermarks) checkAbsence(ctx context.Context, run string, by casvalue.Fence) (a absence, err error) {
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

// absences records since when something has been missing of runs, by this process's clock.
type absences map[string]absenceRecord

type absenceRecord struct {
	watermark watermark // at that time
	what      absence
	since     time.Time
}

// hasTimedOut reports whether something has been missing of a run, at every check, for so long that its watermark no
// longer counts. A watermark that has changed meanwhile starts the time again.
func (p *absences) hasTimedOut(run string, now watermark, what absence) bool {
	if what == present {
		delete(*p, run)
		return false
	}
	before, known := (*p)[run]
	if !known || before.watermark != now || before.what != what {
		if *p == nil {
			*p = absences{}
		}
		before = absenceRecord{now, what, time.Now()}
		(*p)[run] = before
	}
	limit := deletedTimeout
	if what == notBegun {
		limit = beginTimeout
	}
	return time.Since(before.since) >= limit
}
