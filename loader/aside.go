package loader

import (
	"context"
	"time"

	"loaderd/loader/internal/waiting"
	"loaderd/loader/state"
)

// aside is work of the leader that nobody waits for: sampling and measuring how long the run will be. It reads documents as planning does, and a message
// that is read by itself costs JetStream a whole block. So it takes a small part of the time while ranks read, and all of it while none does.
type aside struct {
	*leader
	since time.Time // when it went on last
}

const (
	// asideShare is which part of the time work aside takes while ranks read.
	asideShare = 20
	// asideRest bounds how long it rests at a time: the work may have been held up by others.
	asideRest = 10 * time.Second
	// asideLook is how often it looks whether it need not rest any more.
	asideLook = 100 * time.Millisecond
)

// begin notes that work begins.
func (a *aside) begin() { a.since = time.Now() }

// rest stands still for as long as the work since the last rest demands, where a rank reads and nobody has asked for the length.
func (a *aside) rest(ctx context.Context) error {
	until := time.Now().Add(min((asideShare-1)*time.Since(a.since), asideRest))
	for a.read() && !a.asked() && time.Now().Before(until) {
		if err := waiting.Pause(ctx, min(asideLook, time.Until(until))); err != nil {
			return err
		}
	}
	a.begin()
	return ctx.Err()
}

// read reports whether a rank reads the run, here or elsewhere.
func (l *leader) read() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.demand.Needed != state.EveryStep
}
