package follower

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"loaderd/loader/fault"
)

// idleChecks is the number of checks for idle readers per Options.Silent.
const idleChecks = 8

// DropIdleReaders drops readers that do not request their next step, until ctx is done. A reader that waits for a step
// has requested it.
func (f *Follower) DropIdleReaders(ctx context.Context) {
	if f.options.IdleReaderTimeout <= 0 {
		return
	}
	tick := time.NewTicker(max(f.options.IdleReaderTimeout/idleChecks, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			f.dropIdle(now)
		}
	}
}

func (f *Follower) dropIdle(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	planned := f.plan.PlannedSteps()
	var silent []*Reader
	for _, r := range f.readers.all() {
		if !r.idleSince.IsZero() && r.next < planned && now.Sub(r.idleSince) >= f.options.IdleReaderTimeout {
			silent = append(silent, r)
		}
	}
	for _, r := range silent {
		f.drop(r, &fault.Error{Reason: fault.IdleReader,
			Message: fmt.Sprintf("rank %d of %d of job %s has not requested step %d for %s, and others wait for it",
				r.place.Rank, r.place.World, r.place.JobName(), r.next, now.Sub(r.idleSince).Round(time.Millisecond)),
			Advice: "retry the same step; before a pause that is longer than serve.idle_reader_timeout, commit the steps " +
				"that must be kept",
			Facts: map[string]string{"step": strconv.FormatUint(r.next, 10)}})
	}
}
