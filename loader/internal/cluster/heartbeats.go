package cluster

import (
	"context"
	"time"

	"loaderd/loader/internal/leader"
	"loaderd/loader/internal/ranks"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/state"
)

const (
	// heartbeatInterval is the time between two heartbeats of a daemon when nothing has changed.
	heartbeatInterval = 250 * time.Millisecond
	// ReportTime is the time within which every running daemon has sent the current demand of its readers.
	ReportTime = 2 * heartbeatInterval
	// minHeartbeatInterval is the minimum time between two heartbeats.
	minHeartbeatInterval = 5 * time.Millisecond
)

// heartbeats sends the heartbeats of this daemon and processes those of the others.
type heartbeats struct {
	setup      leader.Setup
	demands    *demands
	leadership *leadership
	remote     *remoteLeader
	ranks      *ranks.Registry // of the follower
	connection *connection
	changed    chan struct{} // signals that a heartbeat is due
	planGrew   chan struct{} // signals that the plan may have grown
	flight     string        // address at which readers reach this daemon; empty if readers do not need it
}

// run sends heartbeats to the other daemons: the demand of this daemon's readers and, if it leads, the end of the
// plan. It sends one on every change and every heartbeatInterval. A daemon that misses the heartbeat of an append
// polls the plan.
func (b *heartbeats) run(ctx context.Context) error {
	defer b.publish(heartbeat{Left: true})
	tick := time.NewTicker(heartbeatInterval)
	defer tick.Stop()
	for round := uint64(1); ; round++ {
		planned := b.setup.View.Now().Changed
		if b.leadership.present() == nil {
			planned = nil // a follower has no records that the others lack
		}
		bytes := b.publishReport(b.next(), round)
		for _, page := range b.ranks.Roll(maxHeartbeatBytes - heartbeatMargin) {
			bytes += b.publish(heartbeat{Roll: &page})
		}
		pause := max(minHeartbeatInterval, time.Duration(bytes)*time.Second/heartbeatBytesPerSecond)
		if err := waiting.Pause(ctx, pause); err != nil {
			return err
		}
		select {
		case <-planned:
		case <-b.changed:
		case <-tick.C:
			b.demands.refresh()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// next returns the heartbeat that is due.
func (b *heartbeats) next() heartbeat {
	own := b.demands.readers()
	h := heartbeat{Demand: &own}
	if l := b.leadership.present(); l != nil {
		r := l.Report()
		r.Connection = b.connection.last()
		h.Lead, h.At, h.Oldest = &r, b.setup.View.Position(), b.setup.View.Now().Oldest
	}
	return h
}

// publishReport sends the pages of the heartbeat's report, if any, then the heartbeat. It returns the total number of
// bytes.
func (b *heartbeats) publishReport(h heartbeat, round uint64) (bytes int) {
	if h.Lead != nil {
		lead, pages := splitReport(*h.Lead, round)
		for _, page := range pages {
			bytes += b.publish(heartbeat{Sources: &page})
		}
		h.Lead = &lead
	}
	return bytes + b.publish(h)
}

// publish sends a heartbeat and returns its size in bytes.
func (b *heartbeats) publish(h heartbeat) int {
	h.Daemon, h.Flight = b.setup.Backends.Daemon, b.flight
	encoded, err := h.encode(b.setup.View.Now().Keepers)
	if err == nil {
		err = b.setup.Backends.Bus.Publish(encoded)
	}
	if err != nil {
		b.setup.Log.Debug("cannot send heartbeats", "error", err)
	}
	return len(encoded)
}

// receive processes the heartbeat of another daemon.
func (b *heartbeats) receive(encoded []byte) {
	h, err := decodeHeartbeat(encoded)
	if err != nil || h.Daemon == b.setup.Backends.Daemon {
		return
	}
	if h.Roll != nil || h.Left {
		b.ranks.Merge(h.Daemon, h.Roll)
	}
	if h.Sources != nil {
		b.remote.receivePage(h.Daemon, h.Sources)
	}
	if h.Roll != nil || h.Sources != nil {
		return
	}
	wants := state.NewDemand()
	if h.Demand != nil {
		wants = h.Demand.Within(b.furthest())
	}
	if h.Left {
		b.demands.stopped(h.Daemon)
	} else {
		b.demands.receive(h.Daemon, h.Flight, wants)
	}
	if h.Lead != nil && b.leadership.present() == nil {
		b.remote.receive(h)
		if h.At > b.setup.View.Position() {
			waiting.Signal(b.planGrew)
		}
	}
}

// furthest returns the furthest step that a reader of any daemon can have requested by now. A daemon rejects readers
// that request steps far beyond the end of the plan.
func (b *heartbeats) furthest() uint64 {
	h, _ := b.setup.View.Head()
	planned := b.setup.View.Planned()
	if h.Repair != nil {
		planned = max(planned, h.Repair.Steps)
	}
	return planned + 2*uint64(b.setup.Options.Ahead) + 2
}
