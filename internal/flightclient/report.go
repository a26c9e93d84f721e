package flightclient

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"loaderd/internal/api"
)

// consumption reports the consumption of a ticket's steps to the daemon, as described in docs/wire.md.
type consumption struct {
	client *Client
	ticket api.Ticket

	mu      sync.Mutex
	taken   uint64
	waiting bool
	changed time.Time
	sent    uint64 // the last reported value of taken
	window  uint64
	early   chan struct{} // signals that half a window was taken since the last report
}

const (
	// reportEvery is the interval of reports.
	reportEvery = time.Second
	// reportLimit is the time limit of one report.
	reportLimit = 2 * time.Second
)

func newSession() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// report starts reporting the consumption of a ticket, until stop is called.
func (c *Client) report(ctx context.Context, t api.Ticket) (x *consumption, stop func()) {
	x = &consumption{client: c, ticket: t, taken: t.Taken, sent: t.Taken, waiting: true, changed: time.Now(), window: 2,
		early: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(reportEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-x.early:
			case <-ctx.Done():
				return
			}
			x.send(ctx, false)
		}
	}()
	return x, func() {
		cancel()
		<-done
		x.send(context.WithoutCancel(ctx), true)
	}
}

// send sends one report. The next report replaces one that fails.
func (x *consumption) send(ctx context.Context, left bool) {
	x.mu.Lock()
	body := api.ConsumedRequest{Run: api.Run{Run: x.ticket.Run}, Job: x.ticket.Job, Rank: x.ticket.Rank,
		World: x.ticket.World, Peer: x.ticket.Peer,
		Session: x.ticket.Session, Taken: x.taken, Waiting: x.waiting, Still: time.Since(x.changed).Seconds(), Left: left}
	x.mu.Unlock()
	x.client.reporting.RLock()
	defer x.client.reporting.RUnlock()
	if x.client.open.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportLimit)
	defer cancel()
	defer context.AfterFunc(x.client.open, cancel)()
	_ = each(ctx, x.client, "consumed", body, func(a api.Consumed) {
		x.mu.Lock()
		x.sent, x.window = body.Taken, uint64(a.Window)
		x.mu.Unlock()
	})
}

// takes records that f is called with a batch of a step, and consumed that f has returned from the last part of a
// step.
func (x *consumption) takes(step uint64) { x.set(step+1, false) }
func (x *consumption) consumed()         { x.set(0, true) }

func (x *consumption) set(taken uint64, waiting bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.taken, x.waiting, x.changed = max(x.taken, taken), waiting, time.Now()
	if x.taken-x.sent >= max(x.window/2, 1) {
		select {
		case x.early <- struct{}{}:
		default:
		}
	}
}
