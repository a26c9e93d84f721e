package diagnosis

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"loaderd/internal/humanize"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/state"
)

// checkStreamFull checks for backpressure: every document of a full stream is planned, and the step needs more.
// Producers wait for room and the run waits for documents.
func (w *wait) checkStreamFull() *fault.Error {
	if !w.isExhausted() {
		return nil
	}
	name := ""
	if x := w.nextSource(); x != nil {
		name = x.Name
	}
	return w.streamFullCause(w.source.DrySince, name)
}

// streamFullCause returns the cause for the first of the given sources whose stream is full; nil if none is.
func (w *wait) streamFullCause(since time.Time, sources ...string) *fault.Error {
	i := slices.IndexFunc(w.Report.StreamFills, func(f state.StreamFill) bool {
		return f.Full && slices.Contains(sources, f.Source)
	})
	if i < 0 {
		return nil
	}
	f := w.Report.StreamFills[i]
	of := state.Quota{Bytes: f.Bytes, MaxBytes: f.MaxBytes}
	if f.IsAccountFull() {
		of = *f.Account
	}
	facts := map[string]string{"step": strconv.FormatUint(w.Step, 10), "stream": f.Name, "release": w.Options.Retention,
		"bytes": strconv.FormatInt(of.Bytes, 10), "max_bytes": strconv.FormatInt(of.MaxBytes, 10), "limit": "stream"}
	stream, waited := fmt.Sprintf("document stream %q", f.Name), ""
	if f.IsAccountFull() {
		facts["limit"] = "account"
		stream = fmt.Sprintf("JetStream account of document stream %q", f.Name)
	}
	facts["source"] = f.Source
	if w.Report.IsMultiSource() {
		stream += fmt.Sprintf(" of source %q", f.Source)
	}
	if !since.IsZero() {
		waited = ", " + humanize.Time(time.Since(since))
	}
	sentence := fmt.Sprintf("The %s is full (%s): producers wait for room, and the run waits for documents%s", stream,
		of, waited)
	detail := fmt.Sprintf("%s of room are left, and the step is not full: %s",
		humanize.Bytes(max(0, of.MaxBytes-of.Bytes)), w.describeShortage())
	if f.Free != nil {
		facts["free_bytes"] = strconv.FormatInt(*f.Free, 10)
	}
	if f.Configured > 0 {
		facts["configured_bytes"] = strconv.FormatInt(f.Configured, 10)
	}
	if f.Configured > f.MaxBytes {
		detail += fmt.Sprintf("; the bound is below stream.max_bytes (%s), which the disk has no space for",
			humanize.Bytes(f.Configured))
	}
	return stallError(fault.StreamFull, sentence, detail, w.fullAdvice(&f, facts), facts)
}

// fullAdvice returns the advice for a full stream. It adds the job that retains the documents to the facts.
func (w *wait) fullAdvice(f *state.StreamFill, facts map[string]string) string {
	job := w.Commits.Slowest()
	committed := w.Commits[job].Step
	reads, from := w.Demand.RetainingJob(w.Commits)
	switch {
	case w.Planned == 0:
		return f.Advice() + "; it holds fewer documents than the first step needs"
	case w.Options.Retention != backend.RetentionPurge:
		return f.Advice() + ", or set serve.retention: purge and let the trainers commit"
	case job == "":
		return "let the trainers commit their checkpoints, none has; or " + f.Advice()
	case from < committed && reads == state.UnnamedJob:
		return "let the jobs that read commit their checkpoints, or let them end; or " + f.Advice()
	case from < committed:
		facts["job"], facts["retained_step"] = reads, strconv.FormatUint(from, 10)
		return fmt.Sprintf("let job %q commit, it has read from step %d on and has not committed; or let it end, or "+
			"commit in its name; or %s",
			reads, from, f.Advice())
	case committed < w.Planned:
		facts["job"], facts["committed_step"] = job, strconv.FormatUint(committed, 10)
		return fmt.Sprintf("let job %q commit, it has committed %s of %s; if it has ended, remove it (action leave); or %s",
			job, humanize.Count(committed), humanize.Things(int(w.Planned), "step"), f.Advice())
	}
	return f.Advice() +
		"; it must hold the documents of pool and shuffle window, those since the planner's checkpoints, " +
		"and those that other runs need"
}
