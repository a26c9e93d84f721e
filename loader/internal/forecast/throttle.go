package forecast

import (
	"context"
	"time"

	"loaderd/loader/internal/waiting"
)

// throttle slows down work that nobody waits for: sampling and measuring how long the run will be. It reads documents
// as planning does, and a message that is read by itself costs JetStream a whole block. So it takes a small part of the
// time while ranks read, and all of it while none does.
type throttle struct {
	e     *Estimator
	since time.Time // when it went on last
}

const (
	// throttleShare is which part of the time throttled work takes while ranks read.
	throttleShare = 20
	// throttleRest bounds how long it rests at a time: the work may have been held up by others.
	throttleRest = 10 * time.Second
	// throttleLook is how often it looks whether it need not rest any more.
	throttleLook = 100 * time.Millisecond
)

// begin notes that work begins.
func (t *throttle) begin() { t.since = time.Now() }

// rest stands still for as long as the work since the last rest demands, where a rank reads and nobody has asked for
// the length.
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
