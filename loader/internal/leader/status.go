package leader

import (
	"log/slog"
	"sync"
	"time"

	"loaderd/internal/event"
	"loaderd/loader/document"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

// status is the part of the leader's report that its goroutines publish.
type status struct {
	view *planview.View
	log  *slog.Logger

	// mu guards the fields below. While it is held, only the mutexes of the view and of the documents' readers are
	// locked.
	mu          sync.Mutex
	stats       state.PlanStats
	hasStats    bool                    // stats have been published
	lastPlanned time.Time               // when the last document was planned; zero before
	replays     bool                    // the plan log is still being replayed
	readers     map[int]document.Source // of the documents, by source
	opened      map[int]time.Time       // when the reader of each source was opened
	opening     *state.Opening          // the stream that is being opened; nil if none
	renewing    time.Time               // since when an append waits for the lease to be renewed; zero if none waits
	storing     time.Time               // when the pending append began; zero if none is pending
	trouble     string                  // problem with the document streams; empty if none
	resizes     []state.PendingResize   // changes of world sizes that wait for ranks
}

func newStatus(v *planview.View, log *slog.Logger) *status {
	return &status{view: v, log: log, replays: true, readers: map[int]document.Source{}, opened: map[int]time.Time{}}
}

// report returns the published part of a report.
func (s *status) report() state.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := state.Report{PlanStats: s.stats, Steps: s.view.PlannedSteps(), Replaying: s.replays, StreamProblem: s.trouble,
		Resizes: s.resizes}
	if s.opening != nil {
		o := *s.opening
		r.Opening = &o
	}
	if source, ok := s.readers[s.stats.NextSource]; ok {
		x := source.Status()
		r.Source, r.SourceAge = &x, time.Since(s.opened[s.stats.NextSource])
		r.IdleTime = r.SourceAge
		for _, at := range []time.Time{x.FetchedAt, s.lastPlanned} {
			if !at.IsZero() {
				r.IdleTime = min(r.IdleTime, time.Since(at))
			}
		}
	}
	r.Sources = make(map[string]document.SourceStatus, len(s.readers))
	for source, x := range s.readers {
		if source < len(s.stats.Sources) {
			r.Sources[s.stats.Sources[source].Name] = x.Status()
		}
	}
	if !s.renewing.IsZero() {
		r.LeaseWait = time.Since(s.renewing)
	}
	if !s.storing.IsZero() {
		r.AppendTime = time.Since(s.storing)
	}
	return r
}

// setStats publishes the planner's statistics.
func (s *status) setStats(x state.PlanStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.PreviousCursor = s.stats.Cursor
	if s.hasStats && x.Cursor != x.PreviousCursor {
		s.lastPlanned = time.Now()
	}
	s.hasStats, s.stats = true, x
}

// setResizes publishes the changes of world sizes that wait for ranks.
func (s *status) setResizes(all []state.PendingResize) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resizes = all
}

// planStats returns the planner's statistics as last published.
func (s *status) planStats() state.PlanStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// replaying reports whether the plan log is still being replayed.
func (s *status) replaying() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replays
}

// endReplay marks that the plan log has been replayed.
func (s *status) endReplay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replays = false
}

// isOpen reports whether the planner has the source and it is not sealed. It is false during the replay, which may
// seal the source.
func (s *status) isOpen(source int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return source < len(s.stats.Sources) && !s.stats.Sources[source].Sealed && !s.replays
}

// setRenewing publishes since when an append waits for the lease to be renewed; zero if none waits.
func (s *status) setRenewing(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewing = since
}

// setStoring publishes since when an append is pending; zero if none is.
func (s *status) setStoring(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.storing = since
}

// setTrouble publishes the problem with the document streams, and returns the previously published one.
func (s *status) setTrouble(text string) (before string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.trouble = s.trouble, text
	return before
}

// onOpenAttempt publishes an attempt to open a source's stream, and the error of the previous attempt; nil for the
// first attempt.
func (s *status) onOpenAttempt(source string, err error) {
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.opening = &state.Opening{Source: source, Since: time.Now()}
		return
	}
	if before := s.setOpenError(err); before == "" {
		s.log.Warn("cannot open the document stream, trying again", event.StreamOpenFailed, "source", source, "error", err)
	}
}

// setOpenError publishes the error of an attempt to open a stream, and returns the previously published one.
func (s *status) setOpenError(err error) (before string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.opening.Error = s.opening.Error, err.Error()
	return before
}

// onOpened publishes the reader of a source.
func (s *status) onOpened(source int, r document.Source) {
	s.mu.Lock()
	attempt := s.opening
	s.readers[source], s.opened[source], s.opening = r, time.Now(), nil
	s.mu.Unlock()
	if attempt != nil && attempt.Error != "" {
		s.log.Info("document stream opened", event.StreamOpened, "source", attempt.Source, "after", time.Since(attempt.Since))
	}
}
