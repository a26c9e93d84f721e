package cluster

import (
	"bytes"
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
	// DemandReportTime is the time within which every running daemon has sent the current demand of its readers.
	DemandReportTime = 2 * heartbeatInterval
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
	address    string        // address at which readers reach this daemon; empty if readers do not need it
}

// run sends heartbeats to the other daemons: the demand of this daemon's readers and, if it leads, the end of the
// plan. It sends one on every change and every heartbeatInterval. A daemon that misses the heartbeat of an append
// polls the plan.
func (b *heartbeats) run(ctx context.Context) error {
	defer b.publish(heartbeat{Stopping: true})
	tick := time.NewTicker(heartbeatInterval)
	defer tick.Stop()
	for round := uint64(1); ; round++ {
		planned := b.setup.View.Snapshot().Changed
		if b.leadership.current() == nil {
			planned = nil // a follower has no records that the others lack
		}
		bytes := b.publishReport(b.nextHeartbeat(), round)
		for _, page := range b.ranks.RollPages(maxHeartbeatBytes - heartbeatMargin) {
			bytes += b.publish(heartbeat{Roll: &page})
		}
		pause := max(minHeartbeatInterval, time.Duration(bytes)*time.Second/heartbeatBytesPerSecond)
		if err := waiting.Sleep(ctx, pause); err != nil {
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

// nextHeartbeat returns the heartbeat that is due.
func (b *heartbeats) nextHeartbeat() heartbeat {
	own := b.demands.localDemand()
	h := heartbeat{Demand: &own}
	if l := b.leadership.current(); l != nil {
		r := l.Report()
		r.Connection = b.connection.lastState()
		h.Report, h.PlanPosition, h.OldestStep = &r, b.setup.View.Position(), b.setup.View.Snapshot().Oldest
	}
	return h
}

// publishReport sends the pages of the heartbeat's report, if any, then the heartbeat. It returns the total number of
// bytes.
func (b *heartbeats) publishReport(h heartbeat, round uint64) (bytes int) {
	if h.Report != nil {
		lead, pages := splitReport(*h.Report, round)
		for _, page := range pages {
			bytes += b.publish(heartbeat{Sources: &page})
		}
		h.Report = &lead
	}
	return bytes + b.publish(h)
}

// publish sends a heartbeat and returns its size in bytes.
func (b *heartbeats) publish(h heartbeat) int {
	h.Daemon, h.Address = b.setup.Backends.Daemon, b.address
	encoded, err := h.encode(b.setup.View.Snapshot().Commits)
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
	if b.isOwn(encoded) {
		return
	}
	h, err := decodeHeartbeat(encoded)
	if err != nil || h.Daemon == b.setup.Backends.Daemon {
		return
	}
	if h.Roll != nil || h.Stopping {
		b.ranks.MergeRoll(h.Daemon, h.Roll)
	}
	if h.Sources != nil {
		b.remote.receivePage(h.Daemon, h.Sources)
	}
	if h.Roll != nil || h.Sources != nil {
		return
	}
	wants := state.NewDemand()
	if h.Demand != nil {
		wants = h.Demand.Clamp(b.maxRequestedStep())
	}
	if h.Stopping {
		b.demands.removeDaemon(h.Daemon)
	} else {
		b.demands.receive(h.Daemon, h.Address, wants)
	}
	if h.Report != nil && b.leadership.current() == nil {
		b.remote.receive(h)
		if h.PlanPosition > b.setup.View.Position() {
			waiting.Signal(b.planGrew)
		}
	}
}

// isOwn reports, without decoding it, whether this daemon has encoded a heartbeat: the bus returns all of them.
func (b *heartbeats) isOwn(encoded []byte) bool {
	return bytes.HasPrefix(encoded, []byte(`{"daemon":"`+b.setup.Backends.Daemon+`"`))
}

// maxRequestedStep returns the furthest step that a reader of any daemon can have requested by now. A daemon rejects
// readers that request steps far beyond the end of the plan.
func (b *heartbeats) maxRequestedStep() uint64 {
	h, _ := b.setup.View.Header()
	planned := b.setup.View.PlannedSteps()
	if h.Repair != nil {
		planned = max(planned, h.Repair.Steps)
	}
	return planned + 2*uint64(b.setup.Options.Ahead) + 2
}
