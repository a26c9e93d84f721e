package daemon

import (
	"loaderd/internal/api"
	"loaderd/internal/build"
	"loaderd/internal/status"
	"loaderd/stream/daemonbus"
	"loaderd/stream/planlog"
)

// newWatch returns the watch of the run's status.
func (d *Daemon) newWatch(name string, events *status.Events, plan *planlog.Log) *status.Watch {
	c := d.config
	return status.New(status.Options{Run: d.run, Plan: plan, Ranks: d.ranks(name), Dead: d.deadStatus,
		Pulls: d.pulls.answers, Bus: daemonbus.NewStatus(d.store, c.Run), Events: events, Log: d.log.With("run", c.Run),
		Bounds: status.Bounds{Window: c.Plan.Shuffle.Window, Ahead: c.Serve.Ahead, BufferBytes: c.Stream.BufferBytes,
			Method: string(c.Plan.Packing.Method)},
		Name: name, Version: build.This().Version, Flight: d.advertised, HTTP: d.http.url()})
}

// ranks returns a function that lists what the streams served by this daemon receive.
func (d *Daemon) ranks(name string) func() []api.RankStatus {
	return func() (out []api.RankStatus) {
		for _, r := range d.flight.Traffic() {
			out = append(out, api.RankStatus{Job: r.Job, Rank: r.Rank, World: r.World, Peer: r.Peer, Sent: r.Step,
				WaitP50: r.WaitP50.Seconds(), WaitP99: r.WaitP99.Seconds(), Bytes: r.Bytes,
				Since: r.Since.UTC(), Who: r.Who, Address: r.Address, Daemon: name})
		}
		return out
	}
}
