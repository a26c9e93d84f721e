package loader

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Cause says why a step is not there yet, as its reader would be told; nil when it is, or when the run has ended.
func (r *Run) Cause(step uint64) *Error {
	r.mu.Lock()
	failed, there := r.failed, step < r.planned || r.ended
	r.mu.Unlock()
	var e *Error
	switch {
	case there:
		return nil
	case errors.As(failed, &e):
		return e
	}
	return r.cause(step)
}

// dryFor is how long a stream has had nothing new before that is the cause of a wait: one that trickles is not dry between its documents.
const dryFor = 5 * time.Second

// cause says why a step has not come: the first thing on its way that does not move.
func (r *Run) cause(step uint64) *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var s SourceStatus
	if r.source != nil {
		s = r.source.Status()
	}
	p := r.stats
	e := &Error{Do: "wait and ask again", Facts: map[string]string{
		"step":          strconv.FormatUint(step, 10),
		"planned":       strconv.FormatUint(r.planned, 10),
		"last_document": strconv.FormatUint(s.Last, 10),
		"read_document": strconv.FormatUint(p.cursor, 10),
		"pool":          fmt.Sprintf("%d of %d", p.pool.Pieces, r.config.Packing.Pool),
		"held_rows":     fmt.Sprintf("%d (%d of %d pieces)", p.pool.Held.Rows, p.pool.Held.Pieces, r.config.Packing.Relevant().Held()),
		"window":        fmt.Sprintf("%d of %d", p.window, r.config.Shuffle.Window),
		"queued_rows":   queueNote(p.queues),
	}}
	p.lacks.note(e.Facts)
	slowest := r.holding(step)
	switch {
	case !r.storing.IsZero() && time.Since(r.storing) > time.Second:
		e.Reason, e.Message = PlanLogDown, fmt.Sprintf("storing the plan has taken %s", time.Since(r.storing).Round(time.Millisecond))
		e.Do = "check the JetStream server and its disk"
	case r.source == nil:
		e.Reason, e.Message = SourceDown, "the document stream has not been opened yet"
		e.Do = "check the NATS server; the daemon connects by itself"
	case r.replays && s.DownSince.IsZero():
		e.Reason, e.Message = Replaying, fmt.Sprintf("the daemon re-plans after a restart: it is at document %d", p.cursor)
	case slowest != nil && !r.replays:
		e.Reason, e.Message = RankBehind, fmt.Sprintf("rank %d of %d has asked for no step beyond %d, and %d steps are planned beyond that", slowest.place.Rank, slowest.place.World, slowest.next, r.options.Ahead)
		e.Do = "look at that rank; the plan goes on when it does"
		e.Facts["rank"], e.Facts["world"], e.Facts["rank_step"] = strconv.Itoa(slowest.place.Rank), strconv.Itoa(slowest.place.World), strconv.FormatUint(slowest.next, 10)
	case !s.DownSince.IsZero():
		e.Reason, e.Message = SourceDown, fmt.Sprintf("the document stream has been out of reach for %s (%s)", time.Since(s.DownSince).Round(time.Millisecond), s.DownReason)
		e.Facts["down_since"] = s.DownSince.UTC().Format(time.RFC3339Nano)
		e.Do = "check the NATS server; the daemon reconnects by itself"
	case !s.DrySince.IsZero() && s.Delivered >= s.Fetched && time.Since(s.DrySince) >= min(dryFor, r.options.Stall/2):
		quiet := time.Since(s.DrySince).Round(time.Millisecond)
		e.Reason, e.Message = SourceDry, fmt.Sprintf("the document stream has had nothing new for %s; document %d was its last, and the step is not full: %s", quiet, s.Last, p.lacks)
		if s.Last == 0 {
			e.Message = fmt.Sprintf("the document stream has been empty for %s: %s", quiet, p.lacks)
		}
		e.Facts["dry_since"] = s.DrySince.UTC().Format(time.RFC3339Nano)
		e.Do = r.whenDry(p.lacks.drains)
	case s.Delivered < s.Fetched && p.cursor == p.cursorBefore:
		e.Reason, e.Message = TokenizerBehind, fmt.Sprintf("%d documents (%d bytes) are fetched and wait to be tokenized", s.Fetched-p.cursor, s.Buffered)
		e.Do = "wait, or give the daemon more stream.workers"
	default:
		e.Reason, e.Message = PoolFilling, fmt.Sprintf("documents flow, but the step is not full yet: %s; pool %s pieces, shuffle window %s, queues %s",
			p.lacks, e.Facts["pool"], e.Facts["window"], e.Facts["queued_rows"])
	}
	return e
}

// whenDry is what helps when no documents come.
func (r *Run) whenDry(drains bool) string {
	switch {
	case drains && r.options.Linger > 0:
		return fmt.Sprintf("publish more documents, or wait: what is there is packed when the stream has been quiet for %s (serve.linger)", r.options.Linger)
	case drains:
		return "publish more documents, drain the run (or set serve.linger) for the steps that what is there fills, or seal the run to get the rest"
	case r.config.Steps.Last == LastPad:
		return "publish more documents, or seal the run to get the rest; a drain would fill no step"
	}
	return "publish more documents; neither a drain nor a seal would fill a step with what is there"
}

// queueNote shows the rows that wait for a step: 1024: 3 of 48 rows, 2048: 1 of 24 rows.
func queueNote(queues []QueueStat) string {
	parts := make([]string, len(queues))
	for i, q := range queues {
		parts[i] = fmt.Sprintf("%d: %d of %d rows", q.Bucket, q.Rows, q.Of)
	}
	return strings.Join(parts, ", ")
}

// unanswered says why a request has no answer.
func (r *Run) unanswered() *Error {
	e := r.cause(r.Info().Planned)
	if e.Reason == Replaying || e.Reason == SourceDown && r.Stats().Replaying || e.Reason == PlanLogDown {
		return e
	}
	return &Error{Reason: PlanLogDown, Message: fmt.Sprintf("the request has not been recorded within %s", r.options.Stall), Do: "check the JetStream server and its disk, and ask again"}
}

// holding returns the reader that holds the plan back before step, if one does. The caller holds mu.
func (r *Run) holding(step uint64) *Reader {
	if step < r.high+uint64(r.options.Ahead) {
		return nil
	}
	var out *Reader
	for _, x := range r.slowest() {
		if out == nil || x.next > out.next {
			out = x
		}
	}
	return out
}

// failure is what readers see of an error that ended the run.
func (r *Run) failure(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Reason: RunFailed, Message: "the run stopped", Err: err, Do: "read the daemon's log, mend the cause and restart it"}
}
