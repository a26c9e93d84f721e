package planview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sort"
	"strconv"
	"sync"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
)

// View is the state of a run's plan in one process: what its log holds, with the newest steps in memory. The leader
// adds the steps that it has stored; followers read them and wait for more. Leader and followers share only the view
// and demand. If the leader is in another process, the view follows the log.
type View struct {
	Log         backend.PlanLog
	Reader      *Reader
	config      runconfig.Config // of this process; must equal the plan's
	MemorySteps uint64           // number of steps kept in memory
	readTimeout time.Duration    // time limit for reading a step from the log

	mu                sync.Mutex
	header            planrecord.Header // of the plan; while begun is false, the one that this process would write
	hasHeader         bool              // the plan has a header
	position          uint64            // last record that was applied
	recordReader      planrecord.Reader // reads the records after it
	changed           chan struct{}     // closed and replaced when one of the fields below changes
	confirmedPosition uint64            // last record that a leader in another process has confirmed
	leader            string            // the leader of the last of these terms; empty while unknown
	steps             uint64            // number in the log
	ended             bool              // no step follows
	endPosition       uint64            // record that ends the run; 0 while none was read
	commits           planrecord.Commits
	departures        []string // committing jobs that have left since the last call of Departures
	oldestStep        uint64   // oldest readable step: documents of earlier ones are purged
	failure           error    // why this process stores no further step, although the run has not ended
	newestSteps       map[uint64]*plan.Step
}

// New returns a view that has not read the log.
func New(log backend.PlanLog, c runconfig.Config, o backend.Options) *View {
	return &View{Log: log, config: c, Reader: &Reader{Log: log}, MemorySteps: uint64(o.Ahead) + recentSteps,
		readTimeout: o.StallTimeout,
		changed:     make(chan struct{}), commits: planrecord.Commits{}, newestSteps: map[uint64]*plan.Step{}}
}

// lagRetryPause is the time between two attempts to read a step from a server that lags.
const lagRetryPause = 100 * time.Millisecond

// recentSteps is the number of steps beyond Options.Ahead that are kept in memory; older ones are read from the plan
// log.
const recentSteps = 64

// Snapshot is a snapshot of a View.
type Snapshot struct {
	Steps   uint64
	Ended   bool
	Commits planrecord.Commits
	// WorldSizes are those that jobs have agreed on. The map is never changed.
	WorldSizes planrecord.WorldSizes
	Oldest     uint64
	Failure    error
	Changed    <-chan struct{} // closed when any of this changes
}

// Snapshot returns a snapshot of the current state.
func (v *View) Snapshot() Snapshot {
	v.mu.Lock()
	defer v.mu.Unlock()
	return Snapshot{v.steps, v.ended, maps.Clone(v.commits), v.recordReader.WorldSizes(), v.oldestStep, v.failure,
		v.changed}
}

// Header returns the plan's header; before the plan has one, the header that this process would write.
func (v *View) Header() (h planrecord.Header, begun bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.header, v.hasHeader
}

// sourceInfos returns the sources of the run, as far as the plan was read.
func (v *View) sourceInfos() []plan.SourceInfo {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.recordReader.Infos()
}

// Schedule returns the schedule of the run's steps, as far as the plan was read.
func (v *View) Schedule() runconfig.Schedule {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.recordReader.Schedule(); len(s.Phases) > 0 {
		return s
	}
	return runconfig.NewSchedule(v.config)
}

// Position returns the position of the last record that was read.
func (v *View) Position() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.position
}

// IsLeader reports whether a daemon leads according to the terms read so far. It reports true if no term is known.
func (v *View) IsLeader(daemon string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.leader == "" || v.leader == daemon
}

// PlannedSteps returns the number of steps that the log holds.
func (v *View) PlannedSteps() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.steps
}

// update changes the state and wakes all waiters.
func (v *View) update(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
	close(v.changed)
	v.changed = make(chan struct{})
}

// OpenedPlan is the result of a leader's reading of a plan.
type OpenedPlan struct {
	Header planrecord.Header
	Fresh  bool   // no record of the plan has been written: Header is the one that this process would write
	Steps  uint64 // number in the log
	Tail   uint64 // last record that the restored planner covers
	// Validator validates the records after Tail, and Commits are those of the plan at Tail.
	Validator planrecord.Validator
	Commits   planrecord.Commits
}

// ApplyOpened applies what a leader has read of the plan, before it plans anything.
func (v *View) ApplyOpened(o OpenedPlan) {
	v.update(func() {
		if !v.hasHeader || !o.Fresh { // a header in the log takes precedence over one that this process would write
			v.header, v.hasHeader = o.Header, !o.Fresh
		}
		v.steps = max(v.steps, o.Steps)
		// The records from here to the end of the plan are applied by a replay, or when the view follows the log.
		if o.Tail > v.position {
			v.position, v.recordReader, v.commits, v.leader = o.Tail, planrecord.Reader{Validator: o.Validator}, o.Commits, ""
			v.ended = v.ended || v.recordReader.Ended
		}
	})
}

// AddStep makes a stored step readable.
func (v *View) AddStep(s *plan.Step) { v.update(func() { v.addStep(s) }) }

// addStep makes a stored step readable. The caller holds mu.
func (v *View) addStep(s *plan.Step) {
	if s.Index+v.MemorySteps < v.steps {
		return // an old step, which is read from the log on request
	}
	v.steps = max(v.steps, s.Index+1)
	v.newestSteps[s.Index] = s
	delete(v.newestSteps, s.Index-v.MemorySteps)
}

// ApplyReplay records that this process has replayed the records up to a position, and the committing jobs there.
func (v *View) ApplyReplay(at uint64, behind planrecord.Reader, k planrecord.Commits) {
	v.update(func() {
		if at > v.position {
			v.position, v.recordReader, v.hasHeader, v.commits, v.leader = at, behind, true, k, ""
		}
	})
}

// ApplyWrite records that this process has stored records after a position: those of step, or others if step is nil.
// They are validated like the records of other processes.
func (v *View) ApplyWrite(after uint64, records [][]byte, step *plan.Step) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, b := range records {
		at := after + uint64(i) + 1
		if at != v.position+1 {
			continue // records of other processes, already read
		}
		var err error
		switch {
		case step == nil, !v.recordReader.IsComplete(): // Follow has read the first parts of the step
			err = v.applyWrittenEntry(b)
		case i == len(records)-1:
			err = v.recordReader.CheckStep(step)
		}
		if err != nil {
			return DamagedRecordError(at, err)
		}
		v.position = at
	}
	return nil
}

// applyWrittenEntry applies a record between steps. The caller holds mu.
func (v *View) applyWrittenEntry(b []byte) error {
	e, err := planrecord.Decode(b)
	if err != nil {
		return err
	}
	if h, ok := e.(planrecord.Header); ok {
		v.applyHeader(h)
		return nil
	}
	v.recordLeave(e)
	_, err = v.recordReader.Read(e)
	return err
}

// recordLeave records a job that leaves. The caller holds mu.
func (v *View) recordLeave(e planrecord.Entry) {
	if x, ok := e.(planrecord.Leave); ok {
		v.departures = append(v.departures, x.Job)
	}
}

// Departures returns the committing jobs that have left since its last call.
func (v *View) Departures() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	left := v.departures
	v.departures = nil
	return left
}

// applyHeader applies the header of the plan. The caller holds mu.
func (v *View) applyHeader(h planrecord.Header) {
	v.header, v.hasHeader, v.recordReader = h, true, planrecord.Reader{Validator: h.Validator()}
}

// Follow reads and applies the records after the last one, up to the end of the log.
func (v *View) Follow(ctx context.Context) error {
	v.mu.Lock()
	from := v.position + 1
	v.mu.Unlock()
	return v.Log.Scan(ctx, from, func(at uint64, record []byte) error {
		e, err := planrecord.Decode(record)
		if err != nil {
			return DamagedRecordError(at, err)
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if at != v.position+1 {
			return nil // this process leads now and has applied the record
		}
		if err := v.applyEntry(e); err != nil {
			return DamagedRecordError(at, err)
		}
		v.position = at
		close(v.changed)
		v.changed = make(chan struct{})
		return nil
	})
}

// applyEntry applies the next record. The caller holds mu.
func (v *View) applyEntry(e planrecord.Entry) error {
	if h, ok := e.(planrecord.Header); ok && v.position == 0 {
		v.applyHeader(h)
		return CheckHeader(v.config, h)
	}
	if v.position == 0 {
		return fmt.Errorf("it is of kind %d and no header", e.Kind())
	}
	s, err := v.recordReader.Read(e)
	if err != nil {
		return err
	}
	if s != nil {
		v.addStep(s)
	}
	v.recordLeave(e)
	switch e := e.(type) {
	case planrecord.Term:
		v.leader = e.Daemon
	case planrecord.Commit, planrecord.Leave:
		v.commits = v.commits.WithEntry(e)
	case planrecord.End:
		v.endPosition = v.position + 1
		v.ended = v.ended || v.endPosition <= v.confirmedPosition
	}
	return nil
}

// ConfirmPosition records that the leader has written or replayed the plan's records up to a position. A record that
// ends the run is in effect only after that: a foreign process may have written it where the leader's next step
// belongs.
func (v *View) ConfirmPosition(at uint64) {
	v.mu.Lock()
	v.confirmedPosition = max(v.confirmedPosition, at)
	ends := !v.ended && v.endPosition != 0 && v.endPosition <= v.confirmedPosition
	v.mu.Unlock()
	if ends {
		v.MarkEnded()
	}
}

// SetCommits replaces the committing jobs. The caller must not change the map afterwards.
func (v *View) SetCommits(k planrecord.Commits) { v.update(func() { v.commits = k }) }

// SetCommitsAt replaces the committing jobs as of a record, unless a later record was applied already.
func (v *View) SetCommitsAt(at uint64, k planrecord.Commits) {
	v.update(func() {
		if at > v.position {
			v.commits = k
		}
	})
}

// MarkEnded records that no step follows.
func (v *View) MarkEnded() { v.update(func() { v.ended = true }) }

// Fail records why this process stores no further step.
func (v *View) Fail(err error) { v.update(func() { v.failure = err }) }

// Step returns one step without waiting for it. It returns io.EOF after the end, and a *fault.Error for a step that
// is not planned yet.
func (v *View) Step(ctx context.Context, step uint64) (*plan.Step, error) {
	v.mu.Lock()
	s, steps, ended := v.newestSteps[step], v.steps, v.ended
	v.mu.Unlock()
	switch {
	case s != nil:
		return s, nil
	case step < steps:
		return v.readStored(ctx, step)
	case ended:
		return nil, io.EOF
	}
	return nil, StepNotPlannedError(step, steps)
}

// StepNotPlannedError returns the error for a request of a step that is not planned yet.
func StepNotPlannedError(step, planned uint64) error {
	return &fault.Error{Reason: fault.StepNotPlanned,
		Message: fmt.Sprintf("step %d is not planned yet; the plan holds %d steps", step, planned),
		Advice:  "ask for a step of the plan, or for the next one",
		Facts:   map[string]string{"step": strconv.FormatUint(step, 10), "planned": strconv.FormatUint(planned, 10)}}
}

// readStored reads a step from the plan log, which holds it. A missing step means that a server lags, so it is read
// again. If the log does not return the step within patience, the error is PLAN_LOG_DOWN.
func (v *View) readStored(ctx context.Context, step uint64) (*plan.Step, error) {
	limit, cancel := context.WithTimeout(ctx, v.readTimeout)
	defer cancel()
	for {
		s, err := v.Reader.Step(limit, step)
		if !errors.Is(err, ErrNoStep) {
			return s, v.wrapTimeout(ctx, limit, step, err)
		}
		if waiting.Sleep(limit, lagRetryPause) != nil {
			return nil, v.wrapTimeout(ctx, limit, step, err)
		}
	}
}

// wrapTimeout converts the error of reading a step into PLAN_LOG_DOWN if patience was exceeded and ctx is not done.
func (v *View) wrapTimeout(ctx, limit context.Context, step uint64, err error) error {
	if err == nil || limit.Err() == nil || ctx.Err() != nil {
		return err
	}
	return &fault.Error{Reason: fault.PlanLogDown,
		Message: fmt.Sprintf("step %d could not be read from the plan log within %s", step, v.readTimeout),
		Advice:  "check the JetStream server; ask again", Err: err}
}

// LowWatermarkBefore returns a position that covers no document which this step or a later one needs.
func (v *View) LowWatermarkBefore(ctx context.Context, step uint64) (plan.Position, error) {
	if step == 0 {
		return plan.Position{}, nil
	}
	s, err := v.Step(ctx, step-1)
	if err != nil {
		return plan.Position{}, fmt.Errorf("read the floor of step %d: %w", step, err)
	}
	return s.LowWatermark, nil
}

// Needs has a sequence for each document stream of a run, by source number: the first document that is needed, or
// that is present.
type Needs []uint64

// IsCoveredBy reports whether all documents that n needs are present. Sources that there does not list have all their
// documents.
func (n Needs) IsCoveredBy(there Needs) bool {
	for source, first := range there {
		if source < len(n) && n[source] < first {
			return false
		}
	}
	return true
}

// NeedsAfter returns what is needed after a low watermark. If the low watermark alone does not determine it, the last
// step before the low watermark that records source positions decides. For a given low watermark the result never
// decreases: documents that were released for a step stay unneeded by that step when another source is added.
func (v *View) NeedsAfter(ctx context.Context, lowWatermark plan.Position) (Needs, error) {
	infos, first, alone := v.firstPlaceAfter(lowWatermark)
	places, err := []mixture.SourcePosition(nil), error(nil)
	if !alone {
		step := func(n uint64) (*plan.Step, error) { return v.Step(ctx, n) }
		places, err = placesBefore(v.PlannedSteps(), step, lowWatermark)
	}
	out := make(Needs, len(infos))
	for source := range infos {
		var place mixture.SourcePosition // of a source that was added since
		if source < len(places) {
			place = places[source]
		}
		out[source] = infos[source].LowWatermark(place)
		if source == 0 {
			out[source] = max(out[source], infos[source].LowWatermark(first))
		}
	}
	return out, err
}

// placesBefore returns the source positions recorded by the last marked step before a low watermark; nil without such a
// step. planned is the number of steps, and step returns one of them.
func placesBefore(planned uint64, step func(uint64) (*plan.Step, error),
	lowWatermark plan.Position) ([]mixture.SourcePosition, error) {
	var failed error
	marks := sort.Search(int((planned+plan.SourcePositionInterval-1)/plan.SourcePositionInterval), func(mark int) bool {
		s, err := step(uint64(mark) * plan.SourcePositionInterval)
		if err != nil {
			failed = err
			return true
		}
		return !lowWatermark.Reaches(s.Cursor)
	})
	if marks == 0 || failed != nil {
		return nil, failed
	}
	at := uint64(marks-1) * plan.SourcePositionInterval
	s, err := step(at)
	if err != nil {
		return nil, fmt.Errorf("read how far the sources were read at step %d: %w", at, err)
	}
	return s.SourcePositions, nil
}

// firstPlaceAfter returns the sources, and a lower bound of the first source's position after an arrival. alone reports
// whether the bound is exact and no other source was read by then.
func (v *View) firstPlaceAfter(lowWatermark plan.Position) (infos []plan.SourceInfo, place mixture.SourcePosition,
	alone bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	place, alone = v.recordReader.FirstSourcePosition(lowWatermark)
	return v.recordReader.Infos(), place, alone
}

// NeedsOfStep returns what this step and later ones need.
func (v *View) NeedsOfStep(ctx context.Context, step uint64) (Needs, error) {
	lowWatermark, err := v.LowWatermarkBefore(ctx, step)
	if err != nil {
		return nil, err
	}
	return v.NeedsAfter(ctx, lowWatermark)
}

// OldestStep returns the first step from which on every step's documents are present.
func (v *View) OldestStep(ctx context.Context, there Needs) (uint64, error) {
	var begun Needs
	for _, s := range v.sourceInfos() { // including added sources
		begun = append(begun, s.First())
	}
	if begun.IsCoveredBy(there) {
		return 0, nil
	}
	var failed error
	n := sort.Search(int(v.PlannedSteps()), func(step int) bool {
		need, err := v.NeedsOfStep(ctx, uint64(step))
		if err != nil {
			failed = err
		}
		return need.IsCoveredBy(there)
	})
	return uint64(n), failed
}

// UpdateOldest updates the oldest readable step from the documents that are present.
func (v *View) UpdateOldest(ctx context.Context, there Needs) error {
	oldest, err := v.OldestStep(ctx, there)
	if err == nil {
		v.SetOldest(oldest)
	}
	return err
}

// SetOldest updates the oldest readable step.
func (v *View) SetOldest(oldest uint64) {
	if v.Snapshot().Oldest < oldest {
		v.update(func() { v.oldestStep = max(v.oldestStep, oldest) })
	}
}

// ConvertDocumentLost converts DOCUMENT_LOST into STEP_PURGED for a step that all jobs have committed, because its
// documents may be purged. Other errors are returned unchanged.
func (v *View) ConvertDocumentLost(ctx context.Context, step uint64, err error) error {
	var e *fault.Error
	if !errors.As(err, &e) || e.Reason != fault.DocumentLost {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, v.readTimeout)
	defer cancel()
	if follow := v.Follow(limit); follow != nil { // this process may not have read the commit yet
		return v.wrapTimeout(ctx, limit, step, follow)
	}
	now := v.Snapshot()
	if oldest := max(now.Commits.Committed(), now.Oldest); step < oldest {
		return StepPurgedError(step, oldest)
	}
	return err
}
