package retention

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/loader/backend"
	"loaderd/stream"
	"loaderd/stream/casvalue"
	"loaderd/stream/messages"
)

// intake is what a run reports to producers, under its own key in the bucket of the document stream's readers.
type intake backend.Intake

// Check implements casvalue.Checked.
func (i intake) Check() error {
	if i.Read > maxSequence || i.Documents < 0 || i.Documents > maxSequence {
		return fmt.Errorf("a run has read up to document %d, %d documents in all", i.Read, i.Documents)
	}
	for why, n := range i.Skipped.All() {
		if n > i.Documents {
			return fmt.Errorf("a run has skipped %d of %d documents as %s", n, i.Documents, why)
		}
	}
	return nil
}

func intakeKey(documents *jetstream.StreamInfo, run string) string {
	return valueKey(documents) + "/" + run
}

// ReportIntake implements backend.LowWatermarks.
func (f *LowWatermarks) ReportIntake(ctx context.Context, now backend.Intake) error {
	if f.intake == nil {
		c, err := casvalue.Open[intake](ctx, f.docs, stream.ReadersBucket, readersDescription,
			intakeKey(f.stream.CachedInfo(), f.plan.Run()),
			"what run "+f.plan.Run()+" reports to producers of stream "+f.docs.Config().Name)
		if err != nil {
			return err
		}
		f.intake = c
	}
	_, err := f.intake.Update(ctx, func(intake) (intake, error) { return intake(now), nil })
	return err
}

// Intakes returns what runs that read the document stream report to producers, by name. A run that has reported nothing
// is left out.
func Intakes(ctx context.Context, s *stream.Store, runs []string) (map[string]backend.Intake, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	documents, err := s.JetStream().Stream(ctx, s.Config().Name)
	if err != nil {
		return nil, fmt.Errorf("read the reports of runs over stream %s: %w", s.Config().Name, err)
	}
	out := map[string]backend.Intake{}
	for _, run := range runs {
		behind, subject := casvalue.KeyAddress(stream.ReadersBucket, intakeKey(documents.CachedInfo(), run))
		m, err := messages.GetLast(ctx, s.Client, behind, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the report of run %s: %w", run, err)
		}
		v, err := casvalue.Decode[intake](m.Data)
		if err != nil {
			return nil, fmt.Errorf("read the report of run %s: %w", run, err)
		}
		out[run] = backend.Intake(v.Value)
	}
	return out, nil
}
