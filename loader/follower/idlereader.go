package follower

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"loaderd/loader/fault"
)

// silentLooks is the number of checks for idle readers per Options.Silent.
const silentLooks = 8

// DropSilent drops readers that do not request their next step, until ctx is done. A reader that waits for a step has
// requested it.
func (f *Follower) DropSilent(ctx context.Context) {
	if f.options.Silent <= 0 {
		return
	}
	tick := time.NewTicker(max(f.options.Silent/silentLooks, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			f.lookForSilent(now)
		}
	}
}

func (f *Follower) lookForSilent(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	planned := f.plan.Planned()
	var silent []*Reader
	for _, r := range f.readers.all() {
		if !r.idle.IsZero() && r.next < planned && now.Sub(r.idle) >= f.options.Silent {
			silent = append(silent, r)
		}
	}
	for _, r := range silent {
		r.gone = &fault.Error{Reason: fault.SilentReader,
			Message: fmt.Sprintf("rank %d of %d of job %s has not asked for step %d for %s, and others wait for who is behind",
				r.place.Rank, r.place.World, r.place.JobName(), r.next, now.Sub(r.idle).Round(time.Millisecond)),
			Do: "ask again for the same step; commit what must be kept meanwhile; serve.silent_reader says how long a " +
				"reader may pause",
			Facts: map[string]string{"step": strconv.FormatUint(r.next, 10)}}
		f.remove(r)
		r.dropped <- r.gone
	}
}
