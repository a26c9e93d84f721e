package status

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/history"
	"loaderd/internal/stats"
	"loaderd/loader"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// update composes the present status and returns its sample for the history. It reads the verdict, the ranks, the
// planner's values and the plan in this order, so that no value is behind one that was read before it.
func (w *Monitor) update(now time.Time) history.Sample {
	verdict, rates, waits, view := w.Run.Verdict(), w.Run.Rates(), w.Run.HasWaitingRank(), w.Run.Ranks()
	streams := w.LocalStreams()
	own := w.daemonStatus(streams)
	daemons, bytes := []api.DaemonStatus{own}, own.Bytes
	for _, o := range w.peers.current(now) {
		d := o.DaemonStatus
		d.SilentSeconds, d.Ranks, d.Bytes = now.Sub(o.receivedAt).Seconds(), o.Readers, o.Sent
		daemons, streams = append(daemons, d), append(streams, o.Reading...)
		bytes += o.Sent
	}
	slices.SortFunc(daemons, func(a, b api.DaemonStatus) int { return cmp.Compare(a.Name, b.Name) })
	s, info := w.Run.Stats(), w.Run.Info()
	ranks := rankStatuses(view, streams, info.Planned, w.Name)
	sent, consumed := jobProgress(view, info.Planned)
	out := api.Status{Run: info.Run, ID: info.ID, Fingerprint: info.Fingerprint, Time: now.UTC(), Daemon: w.Name,
		Version: w.Version, Verdict: verdict,
		Planned: info.Planned, Sent: sent, Consumed: consumed, Ended: info.Ended, Committed: info.Committed,
		Oldest: info.Oldest, Length: info.Length, Streams: s.Streams,
		SourceDetails: api.SourceDetails{ShareUnit: info.Config.Mix.Share},
		Rates:         api.Rates{Rates: rates, Bytes: bytes},
		Commits:       []api.JobCommit{},
		StepSizes:     api.StepSizes{Buckets: []api.BucketStatus{}, Schedule: scheduleStatus(info.Schedule, info.Config)},
		Ranks:         furthestBehind(ranks), RankCount: len(ranks),
		JobDetails: api.JobDetails{Jobs: jobStatuses(view, info.Planned, info.WorldSizes),
			Resizes: resizeStatuses(s.Resizes, now)},
		Daemons: daemons, Events: w.Events.newest()}
	read := min(s.FirstUnrequested, info.Planned)
	if consumed != nil {
		read = *consumed
	}
	if len(view.Jobs) > 0 {
		out.EndsIn = remainingSeconds(read, info.Length, rates)
	}
	out.Flow = w.flowStages(s, &out, read)
	for _, q := range s.Queues {
		out.Buckets = append(out.Buckets, api.BucketStatus{Bucket: q.Bucket, Steps: q.Steps, Rows: q.Rows,
			RowsPerStep: q.StepRows})
	}
	out.Packing = api.PackingStatus{Method: w.Bounds.Method, Padding: stats.PaddingShare(s),
		Split:   stats.TruncatedShare(s),
		Dropped: s.Dropped, Repeated: s.Repeated, AgeMax: s.MaxAge, WaitMax: s.MaxWait,
		Counts: s.PackingCounters}
	for _, job := range slices.Sorted(maps.Keys(info.Commits)) {
		out.Commits = append(out.Commits, api.JobCommit{Job: job, Step: info.Commits[job].Step,
			Skipped: info.Commits[job].Skipped})
	}
	out.UnusedDocuments = unusedDocuments(s)
	if w.Dead != nil {
		out.Dead = w.Dead()
	}
	if w.Pulls != nil {
		out.Pulls = w.Pulls()
	}
	if out.Dead.Reasons == nil {
		out.Dead.Reasons = []api.DeadReason{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	recent := w.steps.RecentShares()
	out.Sources = sourceStatuses(s, recent)
	for i := range out.Daemons {
		if d := &out.Daemons[i]; d.Name == w.leader {
			d.IsLeader, d.Term = true, w.term
		}
	}
	w.status = out
	return history.Sample{At: now, Planned: info.Planned, Read: read, Committed: info.Committed,
		Tokens: s.Slots - s.Padding, Documents: s.Documents,
		Published: s.Published, Bytes: bytes, HasReaders: len(view.Jobs) > 0, IsWaiting: waits, Health: verdict.Health,
		Split:       s.Truncated,
		RowsRelated: s.PackingCounters["rows_ended_related"], RowsSpliced: splicedRows(s)}
}

// daemonStatus returns the status of this daemon.
func (w *Monitor) daemonStatus(streams []api.RankStatus) api.DaemonStatus {
	d := api.DaemonStatus{Name: w.Name, Flight: w.Flight(), HTTP: w.HTTP, Version: w.Version,
		Ranks: len(mergeByProcess(streams))}
	for _, r := range streams {
		d.Bytes += r.Bytes
	}
	return d
}

// remainingSeconds estimates the time until the last step is consumed, in seconds, if read steps have been consumed. It
// returns nil if that is unknown.
func remainingSeconds(read uint64, l *state.Length, r state.Rates) *float64 {
	if l == nil || l.Endless || l.Idle || len(l.OpenSources) > 0 || r.StepsRead <= 0 || l.Steps < read {
		return nil
	}
	seconds := float64(l.Steps-read) / r.StepsRead
	return &seconds
}

// splicedRows returns the number of splice rows.
func splicedRows(s loader.Stats) (n int64) {
	for _, end := range []string{"related", "mixed", "by_length", "padded", "trimmed"} {
		n += s.PackingCounters["rows_ended_"+end]
	}
	return n
}

func sourceStatuses(s loader.Stats, recent map[string]float64) (out []api.SourceStatus) {
	var tokens int64
	for _, x := range s.Sources {
		tokens += x.SharedTokens()
	}
	for _, x := range s.Sources {
		y := api.SourceStatus{Name: x.Name, Target: x.Target, Tokens: x.Status.Tokens, Emitted: x.Emitted,
			Epoch: x.Epoch, Epochs: x.Epochs.String(), Documents: x.Arrived, Undecodable: x.Skipped.Count(plan.SkipUndecodable),
			LeftOut: x.Skipped.Total(), Stored: x.Stream.Last, Start: x.Start, Next: x.Next,
			Sealed: x.Sealed, Paused: x.Paused, Removed: x.Removed, Exhausted: x.Exhausted}
		if tokens > 0 {
			share := stats.Share(x.SharedTokens(), tokens)
			y.Share = &share
		}
		if share, any := recent[x.Name]; any {
			y.Recent = &share
		}
		if at := x.Stream.DrySince; !at.IsZero() {
			y.DrySince = &at
		}
		if at := x.Stream.DownSince; !at.IsZero() {
			y.DownSince = &at
		}
		out = append(out, y)
	}
	return out
}

// flowStages returns the stages from the producers to the jobs' checkpoints. read is the number of steps that all ranks
// have consumed.
func (w *Monitor) flowStages(s loader.Stats, out *api.Status, read uint64) []api.Stage {
	r, planned := out.Rates, out.Planned
	stage := func(name string, value, of float64, unit string, rate float64, leaves string) api.Stage {
		return api.Stage{Name: name, Value: value, Limit: of, Unit: unit, Rate: rate, RateUnit: leaves,
			Bottleneck: out.Verdict.Bottleneck == name}
	}
	var taken, buffered float64
	for _, x := range s.Sources {
		taken += float64(x.Stream.Delivered)
		buffered += float64(x.Stream.Buffered)
	}
	// one document can complete several steps, so this may exceed the limit
	ahead := planned - min(planned, s.FirstUnrequested)
	stages := []api.Stage{
		stage(api.StagePublished, taken, float64(s.Published), "documents", r.Published, "documents"),
		stage(api.StageTokenized, buffered, float64(w.Bounds.BufferBytes), "bytes", r.TokensIn, "tokens"),
		stage(api.StagePool, float64(s.PoolPieces), float64(s.Capacity.Pool), "pieces", r.Documents, "documents"),
		stage(api.StageHeld, float64(s.HeldPieces), float64(s.Capacity.Held), "pieces", 0, "rows"),
		stage(api.StageWindow, float64(s.WindowRows), float64(w.Bounds.Window), "atoms", r.Rows, "rows"),
		stage(api.StageQueues, float64(s.QueueRows), float64(s.Capacity.Rows), "rows", r.Steps, "steps"),
		stage(api.StageAhead, float64(ahead), float64(max(uint64(w.Bounds.Ahead), ahead)), "steps", r.Steps, "steps"),
		stage(api.StageRead, float64(read), float64(planned), "steps", r.StepsRead, "steps"),
		stage(api.StageCommitted, float64(out.Committed), float64(planned), "steps", 0, "steps"),
	}
	return slices.DeleteFunc(stages, func(x api.Stage) bool { return x.Name == api.StageHeld && x.Limit == 0 })
}
