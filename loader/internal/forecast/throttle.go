package forecast

import (
	"context"
	"time"

	"loaderd/loader/internal/waiting"
)

// throttle slows down background work: sampling and measuring the run's length. That work reads documents as planning
// does, and a single message costs JetStream a whole block. It therefore uses a small part of the time while ranks
// read, and all of it while none does.
type throttle struct {
	e     *Estimator
	since time.Time // end of the last rest
}

const (
	// throttleShare is the inverse of the part of the time that throttled work uses while ranks read.
	throttleShare = 20
	// throttleRest bounds a single rest, because the work may have taken long for external reasons.
	throttleRest = 10 * time.Second
	// throttleLook is the interval at which a rest checks whether it can end early.
	throttleLook = 100 * time.Millisecond
)

// begin records the start of the work.
func (t *throttle) begin() { t.since = time.Now() }

// rest sleeps in proportion to the work since the last rest, if a rank reads and no measurement was requested.
func (t *throttle) rest(ctx context.Context) error {
	until := time.Now().Add(min((throttleShare-1)*time.Since(t.since), throttleRest))
	for t.e.run.Read() && !t.e.isAsked() && time.Now().Before(until) {
		if err := waiting.Pause(ctx, min(throttleLook, time.Until(until))); err != nil {
			return err
		}
	}
	t.begin()
	return ctx.Err()
}
