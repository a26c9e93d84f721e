package leader

import (
	"context"
	"log/slog"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
)

// noTokenizer is the tokenizer name of a run that accepts only token ids.
const noTokenizer = "none"

// intakeInterval is the interval at which changes are reported to producers.
const intakeInterval = 500 * time.Millisecond

// intakeReporter reports to producers which documents the run accepts.
type intakeReporter struct {
	streams   *planview.Streams
	view      *planview.View
	header    planrecord.Header
	tokenizer runconfig.Tokenizer
	status    *status
	demand    *readerDemand
	log       *slog.Logger
}

// run reports to producers what the run accepts, how far it has read, and what it skipped, whenever that changes.
func (r *intakeReporter) run(ctx context.Context) error {
	tick := time.NewTicker(intakeInterval)
	defer tick.Stop()
	reported, failed := map[int]backend.Intake{}, false
	for {
		all, err := r.streams.RunStreams(ctx, r.header)
		if err != nil {
			return err
		}
		for i, x := range all {
			now := r.intake(i)
			if was, ok := reported[i]; x.LowWatermarks == nil || ok && was == now {
				continue
			}
			switch err := x.LowWatermarks.ReportIntake(ctx, now); {
			case err == nil:
				reported[i], failed = now, false
			case ctx.Err() == nil && !failed:
				failed = true
				r.log.Warn("cannot report to producers", "stream", x.SourceBegin.Stream.Name, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// intake returns the report for a source's document stream.
func (r *intakeReporter) intake(source int) backend.Intake {
	now, t := r.view.Snapshot(), r.tokenizer
	p, limit := r.status.planStats(), r.demand.planLimit()
	out := backend.Intake{Tokenizer: t.Name, Fingerprint: t.Fingerprint, Text: t.Name != noTokenizer,
		Full: now.Ended || p.Idle || now.Steps >= limit, Filling: p.Shortage.Early && !now.Ended}
	if source >= len(p.Sources) { // the planner has no statistics of the source yet
		return out
	}
	x := &p.Sources[source]
	out.Documents, out.Skipped = x.Arrived, x.Skipped
	if out.Read = max(x.Next, 1) - 1; x.Next == 0 {
		out.Read = x.Last
	}
	out.Full = out.Full || x.Next == 0 || x.Epoch > 0 // the source was read to its end
	return out
}
