package daemon

import (
	"loaderd/internal/api"
	"loaderd/internal/build"
	"loaderd/internal/status"
	"loaderd/stream/daemonbus"
	"loaderd/stream/planlog"
)

// newMonitor returns the watch of the run's status.
func (d *Daemon) newMonitor(name string, events *status.Events, plan *planlog.Log) *status.Monitor {
	c := d.config
	return status.New(status.Options{Run: d.run, Plan: plan, LocalStreams: d.rankStreams(name), Dead: d.deadStatus,
		Pulls: d.pulls.apiStatus, Bus: daemonbus.NewStatus(d.store, c.Run), Events: events, Log: d.log.With("run", c.Run),
		Bounds: status.Bounds{Window: c.Plan.Shuffle.Window, Ahead: c.Serve.Ahead, BufferBytes: c.Stream.BufferBytes,
			Method: string(c.Plan.Packing.Method)},
		Name: name, Version: build.This().Version, Flight: d.advertisedURI, HTTP: d.http.url()})
}

// rankStreams returns a function that lists what the streams served by this daemon receive.
func (d *Daemon) rankStreams(name string) func() []api.RankStatus {
	return func() (out []api.RankStatus) {
		for _, r := range d.flight.StreamStats() {
			out = append(out, api.RankStatus{Job: r.Job, Rank: r.Rank, World: r.World, Peer: r.Peer, Sent: r.Step,
				WaitP50: r.WaitP50.Seconds(), WaitP99: r.WaitP99.Seconds(), Bytes: r.BytesPerSecond,
				Since: r.Since.UTC(), Identity: r.Identity, Address: r.Address, Daemon: name})
		}
		return out
	}
}
