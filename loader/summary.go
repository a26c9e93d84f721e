package loader

import (
	"context"
	"errors"
	"fmt"

	"loaderd/loader/plan"
)

// Summary is what a plan says of its run.
type Summary struct {
	Header plan.Header
	Steps  uint64
	// Sealed says that the run reads no document behind SealedAt, Ended that no step follows.
	Sealed   bool
	SealedAt uint64
	SealedBy string // who asked for it, where that is known
	Ended    bool
	// Keepers have committed so far.
	Keepers plan.Keepers
}

// Summarize reads what a plan says of its run. It reads the records behind a checkpoint of the run, and all of them without one that fits.
func Summarize(ctx context.Context, log PlanLog, checkpoint []byte) (s Summary, err error) {
	p := &planReader{log: log}
	if s.Header, err = p.header(ctx); err != nil {
		return s, err
	}
	end, err := p.end(ctx)
	if err != nil {
		return s, err
	}
	s.Steps, s.Ended, s.Keepers = end.steps, end.ended != 0, plan.Keepers{}
	from := uint64(2)
	if c, fits := p.covers(ctx, s.Header, checkpoint, end.records); fits {
		from, s.Keepers = c.Tail.Position+1, c.Keepers()
		for _, e := range c.Pending() {
			s.note(e)
		}
	}
	err = log.Scan(ctx, from, func(at uint64, record []byte) error {
		e, err := plan.DecodeRecord(record)
		if err != nil {
			return damaged(at, err)
		}
		s.note(e)
		return nil
	})
	if err == nil && end.ended >= from && !s.Sealed && !s.Header.Config.Mixed() {
		err = damaged(end.ended, errors.New("it ends the run, and no seal stands before it"))
	}
	if err != nil {
		return s, fmt.Errorf("read the plan: %w", err)
	}
	return s, nil
}

// covers reports whether a checkpoint is of this plan, of which so many records are there.
func (p *planReader) covers(ctx context.Context, h plan.Header, checkpoint []byte, records uint64) (plan.Checkpoint, bool) {
	c, err := plan.DecodeCheckpoint(checkpoint)
	if err != nil || c.Fingerprint != h.Fingerprint || c.Tail.Position > records {
		return c, false
	}
	record, err := p.log.Get(ctx, c.Tail.Position)
	return c, err == nil && plan.TailOf(c.Tail.Position, record) == c.Tail
}

func (s *Summary) note(e plan.Entry) {
	switch e := e.(type) {
	case plan.Seal:
		s.Sealed, s.SealedAt, s.SealedBy = true, e.At, e.By
	case plan.Commit, plan.Leave:
		s.Keepers = s.Keepers.Changed(e)
	}
}
