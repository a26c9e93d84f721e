package flightclient

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"loaderd/internal/api"
)

// consumptionReporter reports the consumption of a ticket's steps to the daemon, as described in
// docs/reference/wire.md.
type consumptionReporter struct {
	client *Client
	ticket api.Ticket

	mu        sync.Mutex
	taken     uint64
	waiting   bool
	changed   time.Time
	sent      uint64 // the last reported value of taken
	window    uint64
	reportNow chan struct{} // signals that half a window was taken since the last report
}

const (
	// reportInterval is the interval of reports.
	reportInterval = time.Second
	// reportTimeout is the time limit of one report.
	reportTimeout = 2 * time.Second
)

func newSession() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// startReporting starts reporting the consumption of a ticket, until stop is called.
func (c *Client) startReporting(ctx context.Context, t api.Ticket) (x *consumptionReporter, stop func()) {
	x = &consumptionReporter{client: c, ticket: t, taken: t.Taken, sent: t.Taken, waiting: true, changed: time.Now(),
		window:    2,
		reportNow: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(reportInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-x.reportNow:
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
func (x *consumptionReporter) send(ctx context.Context, left bool) {
	x.mu.Lock()
	body := api.ConsumedRequest{Run: api.Run{Run: x.ticket.Run}, Job: x.ticket.Job, Rank: x.ticket.Rank,
		World: x.ticket.World, Peer: x.ticket.Peer,
		Session: x.ticket.Session, Taken: x.taken, Waiting: x.waiting, UnchangedSeconds: time.Since(x.changed).Seconds(),
		Left: left}
	x.mu.Unlock()
	x.client.reportMu.RLock()
	defer x.client.reportMu.RUnlock()
	if x.client.lifetime.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	defer context.AfterFunc(x.client.lifetime, cancel)()
	_ = eachResult(ctx, x.client, "consumed", body, func(a api.ConsumedResponse) {
		x.mu.Lock()
		x.sent, x.window = body.Taken, uint64(a.Window)
		x.mu.Unlock()
	})
}

// markTaken records that f is called with a batch of a step, and consumed that f has returned from the last part of a
// step.
func (x *consumptionReporter) markTaken(step uint64) { x.update(step+1, false) }
func (x *consumptionReporter) markConsumed()         { x.update(0, true) }

func (x *consumptionReporter) update(taken uint64, waiting bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.taken, x.waiting, x.changed = max(x.taken, taken), waiting, time.Now()
	if x.taken-x.sent >= max(x.window/2, 1) {
		select {
		case x.reportNow <- struct{}{}:
		default:
		}
	}
}
