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
	e         *Estimator
	workStart time.Time // end of the last rest
}

const (
	// throttleDivisor is the inverse of the part of the time that throttled work uses while ranks read.
	throttleDivisor = 20
	// maxThrottleSleep bounds a single rest, because the work may have taken long for external reasons.
	maxThrottleSleep = 10 * time.Second
	// throttlePollInterval is the interval at which a rest checks whether it can end early.
	throttlePollInterval = 100 * time.Millisecond
)

// startWork records the start of the work.
func (t *throttle) startWork() { t.workStart = time.Now() }

// sleep sleeps in proportion to the work since the last rest, if a rank reads and no measurement was requested.
func (t *throttle) sleep(ctx context.Context) error {
	until := time.Now().Add(min((throttleDivisor-1)*time.Since(t.workStart), maxThrottleSleep))
	for t.e.run.HasReaders() && !t.e.isMeasureRequested() && time.Now().Before(until) {
		if err := waiting.Sleep(ctx, min(throttlePollInterval, time.Until(until))); err != nil {
			return err
		}
	}
	t.startWork()
	return ctx.Err()
}
