package maintenance

import (
	"context"
	"fmt"
	"slices"

	"loaderd/loader/backend"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
)

// Summary is the state of a run according to its plan.
type Summary struct {
	Header planrecord.Header
	Steps  uint64
	// Sealed reports that all sources are sealed, Ended that no step follows.
	Sealed   bool
	SealedBy string // requester of the last seal, if known
	Ended    bool
	// Keepers are the jobs that have committed so far.
	Keepers planrecord.Keepers
	// Sources are ordered by source number.
	Sources []SourceSummary
}

// SourceSummary is the state of a source according to the plan.
type SourceSummary struct {
	plan.SourceBegin
	Sealed  bool
	Last    uint64 // last document of a sealed source
	Removed bool
}

// Summarize reads the state of a run from its plan. With a matching checkpoint of the run it reads only the records
// after it.
func Summarize(ctx context.Context, log backend.PlanLog, checkpoint []byte) (s Summary, err error) {
	p := &planview.Reader{Log: log}
	if s.Header, err = p.Header(ctx); err != nil {
		return s, err
	}
	end, err := p.End(ctx)
	if err != nil {
		return s, err
	}
	s.Steps, s.Ended, s.Keepers = end.Steps, end.Ended != 0, planrecord.Keepers{}
	from := uint64(2)
	s.adds(s.Header.Infos())
	s.inherits()
	if c, fits := p.Covers(ctx, s.Header, checkpoint, end.Records); fits {
		from, s.Keepers = c.Tail.Position+1, c.Keepers
		if s.Header.State, err = p.Heritage(ctx, s.Header); err != nil {
			return s, err
		}
		if err := s.restored(c); err != nil {
			return s, fmt.Errorf("read the newest checkpoint: %w", err)
		}
		for _, e := range c.Pending {
			s.note(e)
		}
	}
	err = log.Scan(ctx, from, func(at uint64, record []byte) error {
		e, err := planrecord.Decode(record)
		if err != nil {
			return planview.Damaged(at, err)
		}
		s.note(e)
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("read the plan: %w", err)
	}
	s.Sealed = !slices.ContainsFunc(s.Sources, func(x SourceSummary) bool { return !x.Sealed && !x.Removed })
	return s, nil
}

// adds adds sources.
func (s *Summary) adds(infos []plan.SourceInfo) {
	for _, x := range infos {
		s.Sources = append(s.Sources, SourceSummary{SourceBegin: x.SourceBegin, Sealed: x.Sealed, Last: x.Last})
	}
}

// inherits applies the state of the sources at the start of a fork.
func (s *Summary) inherits() {
	if s.Header.Parent == nil {
		return
	}
	for i, x := range s.Header.Parent.Sources {
		if s.Sources[i].Removed = x.Removed; x.Sealed {
			s.Sources[i].Sealed, s.Sources[i].Last = true, x.Last
		}
	}
}

// restored replaces the sources with their state at a checkpoint.
func (s *Summary) restored(c planrecord.Checkpoint) error {
	a, err := planner.Restore(s.Header, c)
	if err != nil {
		return err
	}
	s.Sources = nil
	s.adds(a.Planner.Infos())
	for i, x := range a.Planner.Mixture().Status() {
		s.Sources[i].Sealed, s.Sources[i].Last, s.Sources[i].Removed = x.Sealed, x.Last, x.Removed
	}
	return nil
}

func (s *Summary) note(e planrecord.Entry) {
	switch e := e.(type) {
	case planrecord.SealSource:
		if e.Source < len(s.Sources) {
			s.Sources[e.Source].Sealed, s.Sources[e.Source].Last, s.SealedBy = true, e.Last, e.By
		}
	case planrecord.Mix:
		for i := range s.Sources {
			s.Sources[i].Removed = s.Sources[i].Removed || slices.Contains(e.Remove, s.Sources[i].Name)
		}
		s.adds(e.Infos())
	case planrecord.Commit, planrecord.Leave:
		s.Keepers = s.Keepers.Changed(e)
	}
}
