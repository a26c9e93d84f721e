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
	// Commits are the last committed steps by job.
	Commits planrecord.Commits
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
	end, err := p.ReadEnd(ctx)
	if err != nil {
		return s, err
	}
	s.Steps, s.Ended, s.Commits = end.Steps, end.EndRecord != 0, planrecord.Commits{}
	from := uint64(2)
	s.addSources(s.Header.Infos())
	s.applyForkState()
	if c, fits := p.MatchCheckpoint(ctx, s.Header, checkpoint, end.Records); fits {
		from, s.Commits = c.Tail.Position+1, c.Commits
		if s.Header.State, err = p.ForkState(ctx, s.Header); err != nil {
			return s, err
		}
		if err := s.applyCheckpoint(c); err != nil {
			return s, fmt.Errorf("read the newest checkpoint: %w", err)
		}
		for _, e := range c.Pending {
			s.applyEntry(e)
		}
	}
	err = log.Scan(ctx, from, func(at uint64, record []byte) error {
		e, err := planrecord.Decode(record)
		if err != nil {
			return planview.DamagedRecordError(at, err)
		}
		s.applyEntry(e)
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("read the plan: %w", err)
	}
	s.Sealed = !slices.ContainsFunc(s.Sources, func(x SourceSummary) bool { return !x.Sealed && !x.Removed })
	return s, nil
}

// addSources adds sources.
func (s *Summary) addSources(infos []plan.SourceInfo) {
	for _, x := range infos {
		s.Sources = append(s.Sources, SourceSummary{SourceBegin: x.SourceBegin, Sealed: x.Sealed, Last: x.Last})
	}
}

// applyForkState applies the state of the sources at the start of a fork.
func (s *Summary) applyForkState() {
	if s.Header.Parent == nil {
		return
	}
	for i, x := range s.Header.Parent.Sources {
		if s.Sources[i].Removed = x.Removed; x.Sealed {
			s.Sources[i].Sealed, s.Sources[i].Last = true, x.Last
		}
	}
}

// applyCheckpoint replaces the sources with their state at a checkpoint.
func (s *Summary) applyCheckpoint(c planrecord.Checkpoint) error {
	a, err := planner.Restore(s.Header, c)
	if err != nil {
		return err
	}
	s.Sources = nil
	s.addSources(a.Planner.Infos())
	for i, x := range a.Planner.Mixture().Status() {
		s.Sources[i].Sealed, s.Sources[i].Last, s.Sources[i].Removed = x.Sealed, x.Last, x.Removed
	}
	return nil
}

func (s *Summary) applyEntry(e planrecord.Entry) {
	switch e := e.(type) {
	case planrecord.SealSource:
		if e.Source < len(s.Sources) {
			s.Sources[e.Source].Sealed, s.Sources[e.Source].Last, s.SealedBy = true, e.Last, e.Requester
		}
	case planrecord.Mix:
		for i := range s.Sources {
			s.Sources[i].Removed = s.Sources[i].Removed || slices.Contains(e.Remove, s.Sources[i].Name)
		}
		s.addSources(e.Infos())
	case planrecord.Commit, planrecord.Leave:
		s.Commits = s.Commits.WithEntry(e)
	}
}
