package leader

import (
	"context"
	"time"

	"loaderd/loader/backend"
)

// noTokenizer is the name of the tokenizer of a run that accepts token ids alone.
const noTokenizer = "none"

// intakeInterval is how often changes are reported to producers.
const intakeInterval = 500 * time.Millisecond

// reportIntake reports to producers what the run accepts, how far it has read and what it skipped, whenever that changes.
func (l *Leader) reportIntake(ctx context.Context) error {
	tick := time.NewTicker(intakeInterval)
	defer tick.Stop()
	reported, failed := map[int]backend.Intake{}, false
	for {
		all, err := l.Streams.All(ctx, l.header)
		if err != nil {
			return err
		}
		for i, x := range all {
			now := l.intake(i)
			if was, ok := reported[i]; x.LowWatermarks == nil || ok && was == now {
				continue
			}
			switch err := x.LowWatermarks.Report(ctx, now); {
			case err == nil:
				reported[i], failed = now, false
			case ctx.Err() == nil && !failed:
				failed = true
				l.Log.Warn("producers get no report of this run", "stream", x.SourceBegin.Stream.Name, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// intake is the report for a document stream.
func (l *Leader) intake(source int) backend.Intake {
	now, t := l.View.Now(), l.Config.Tokenizer
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.figures
	out := backend.Intake{Tokenizer: t.Name, Fingerprint: t.Fingerprint, Text: t.Name != noTokenizer, Full: now.Ended || p.Idle || now.Steps >= l.wanted+uint64(l.Options.Ahead),
		Filling: p.Lacks.Early && !now.Ended}
	if source >= len(p.Sources) { // the planner has no figures of it yet
		return out
	}
	x := &p.Sources[source]
	out.Documents, out.Skipped = x.Arrived, x.Skipped
	if out.Read = max(x.Next, 1) - 1; x.Next == 0 {
		out.Read = x.Last
	}
	out.Full = out.Full || x.Next == 0 || x.Epoch > 0 // it was read to its end
	return out
}
