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
	Log      backend.PlanLog
	Reader   *Reader
	config   runconfig.Config // of this process; must equal the plan's
	Recent   uint64           // number of steps kept in memory
	patience time.Duration    // time limit for reading a step from the log

	mu        sync.Mutex
	header    planrecord.Header // of the plan; while begun is false, the one that this process would write
	begun     bool              // the plan has a header
	at        uint64            // last record that was applied
	behind    planrecord.Reader // reads the records after it
	changed   chan struct{}     // closed and replaced when one of the fields below changes
	confirmed uint64            // last record that a leader in another process has confirmed
	daemon    string            // the leader of the last of these terms; empty while unknown
	steps     uint64            // number in the log
	ended     bool              // no step follows
	endAt     uint64            // record that ends the run; 0 while none was read
	keepers   planrecord.Keepers
	left      []string // keepers that have left since the last call of Departures
	oldest    uint64   // oldest readable step: documents of earlier ones are purged
	failed    error    // why this process stores no further step, although the run has not ended
	newest    map[uint64]*plan.Step
}

// New returns a view that has not read the log.
func New(log backend.PlanLog, c runconfig.Config, o backend.Options) *View {
	return &View{Log: log, config: c, Reader: &Reader{Log: log}, Recent: uint64(o.Ahead) + recentSteps, patience: o.Stall,
		changed: make(chan struct{}), keepers: planrecord.Keepers{}, newest: map[uint64]*plan.Step{}}
}

// behindPause is the time between two attempts to read a step from a server that lags.
const behindPause = 100 * time.Millisecond

// recentSteps is the number of steps beyond Options.Ahead that are kept in memory; older ones are read from the plan
// log.
const recentSteps = 64

// planned is a snapshot of a View.
type planned struct {
	Steps   uint64
	Ended   bool
	Keepers planrecord.Keepers
	Oldest  uint64
	Failed  error
	Changed <-chan struct{} // closed when any of this changes
}

// Now returns a snapshot of the current state.
func (v *View) Now() planned {
	v.mu.Lock()
	defer v.mu.Unlock()
	return planned{v.steps, v.ended, maps.Clone(v.keepers), v.oldest, v.failed, v.changed}
}

// Head returns the plan's header; before the plan has one, the header that this process would write.
func (v *View) Head() (h planrecord.Header, begun bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.header, v.begun
}

// infos returns the sources of the run, as far as the plan was read.
func (v *View) infos() []plan.SourceInfo {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.behind.Infos()
}

// Position returns the position of the last record that was read.
func (v *View) Position() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.at
}

// LedBy reports whether a daemon leads according to the terms read so far. It reports true if no term is known.
func (v *View) LedBy(daemon string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.daemon == "" || v.daemon == daemon
}

// Planned returns the number of steps that the log holds.
func (v *View) Planned() uint64 {
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

// Opened is the result of a leader's reading of a plan.
type Opened struct {
	Header planrecord.Header
	Fresh  bool   // no record of the plan has been written: Header is the one that this process would write
	Steps  uint64 // number in the log
	Tail   uint64 // last record that the restored planner covers
	// Behind validates the records after Tail, and Keepers are those of the plan at Tail.
	Behind  planrecord.Validator
	Keepers planrecord.Keepers
}

// Opened applies what a leader has read of the plan, before it plans anything.
func (v *View) Opened(o Opened) {
	v.update(func() {
		if !v.begun || !o.Fresh { // a header in the log takes precedence over one that this process would write
			v.header, v.begun = o.Header, !o.Fresh
		}
		v.steps = max(v.steps, o.Steps)
		// The records from here to the end of the plan are applied by a replay, or when the view follows the log.
		if o.Tail > v.at {
			v.at, v.behind, v.keepers, v.daemon = o.Tail, planrecord.Reader{Validator: o.Behind}, o.Keepers, ""
			v.ended = v.ended || v.behind.Ended
		}
	})
}

// Extend makes a stored step readable.
func (v *View) Extend(s *plan.Step) { v.update(func() { v.add(s) }) }

// add makes a stored step readable. The caller holds mu.
func (v *View) add(s *plan.Step) {
	if s.Index+v.Recent < v.steps {
		return // an old step, which is read from the log on request
	}
	v.steps = max(v.steps, s.Index+1)
	v.newest[s.Index] = s
	delete(v.newest, s.Index-v.Recent)
}

// Replayed records that this process has replayed the records up to a position, and the keepers there.
func (v *View) Replayed(at uint64, behind planrecord.Reader, k planrecord.Keepers) {
	v.update(func() {
		if at > v.at {
			v.at, v.behind, v.begun, v.keepers, v.daemon = at, behind, true, k, ""
		}
	})
}

// Wrote records that this process has stored records after a position: those of step, or others if step is nil. They
// are validated like the records of other processes.
func (v *View) Wrote(after uint64, records [][]byte, step *plan.Step) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, b := range records {
		at := after + uint64(i) + 1
		if at != v.at+1 {
			continue // records of other processes, already read
		}
		var err error
		switch {
		case step == nil:
			err = v.wroteEntry(b)
		case i == len(records)-1:
			err = v.behind.Step(step)
		}
		if err != nil {
			return Damaged(at, err)
		}
		v.at = at
	}
	return nil
}

// wroteEntry applies a record between steps. The caller holds mu.
func (v *View) wroteEntry(b []byte) error {
	e, err := planrecord.Decode(b)
	if err != nil {
		return err
	}
	if h, ok := e.(planrecord.Header); ok {
		v.begins(h)
		return nil
	}
	v.leaves(e)
	_, err = v.behind.Read(e)
	return err
}

// leaves records a keeper that leaves. The caller holds mu.
func (v *View) leaves(e planrecord.Entry) {
	if x, ok := e.(planrecord.Leave); ok {
		v.left = append(v.left, x.Keeper)
	}
}

// Departures returns the keepers that have left since its last call.
func (v *View) Departures() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	left := v.left
	v.left = nil
	return left
}

// begins applies the header of the plan. The caller holds mu.
func (v *View) begins(h planrecord.Header) {
	v.header, v.begun, v.behind = h, true, planrecord.Reader{Validator: h.Validator()}
}

// Follow reads and applies the records after the last one, up to the end of the log.
func (v *View) Follow(ctx context.Context) error {
	v.mu.Lock()
	from := v.at + 1
	v.mu.Unlock()
	return v.Log.Scan(ctx, from, func(at uint64, record []byte) error {
		e, err := planrecord.Decode(record)
		if err != nil {
			return Damaged(at, err)
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if at != v.at+1 {
			return nil // this process leads now and has applied the record
		}
		if err := v.take(e); err != nil {
			return Damaged(at, err)
		}
		v.at = at
		close(v.changed)
		v.changed = make(chan struct{})
		return nil
	})
}

// take applies the next record. The caller holds mu.
func (v *View) take(e planrecord.Entry) error {
	if h, ok := e.(planrecord.Header); ok && v.at == 0 {
		v.begins(h)
		return Accepts(v.config, h)
	}
	if v.at == 0 {
		return fmt.Errorf("it is of kind %d and no header", e.Kind())
	}
	s, err := v.behind.Read(e)
	if err != nil {
		return err
	}
	if s != nil {
		v.add(s)
	}
	v.leaves(e)
	switch e := e.(type) {
	case planrecord.Term:
		v.daemon = e.Daemon
	case planrecord.Commit, planrecord.Leave:
		v.keepers = v.keepers.Changed(e)
	case planrecord.End:
		v.endAt = v.at + 1
		v.ended = v.ended || v.endAt <= v.confirmed
	}
	return nil
}

// Confirm records that the leader has written or replayed the plan's records up to a position. A record that ends the
// run is in effect only after that: a foreign process may have written it where the leader's next step belongs.
func (v *View) Confirm(at uint64) {
	v.mu.Lock()
	v.confirmed = max(v.confirmed, at)
	ends := !v.ended && v.endAt != 0 && v.endAt <= v.confirmed
	v.mu.Unlock()
	if ends {
		v.End()
	}
}

// Keep replaces the keepers. The caller must not change the map afterwards.
func (v *View) Keep(k planrecord.Keepers) { v.update(func() { v.keepers = k }) }

// KeepBy replaces the keepers as of a record, unless a later record was applied already.
func (v *View) KeepBy(at uint64, k planrecord.Keepers) {
	v.update(func() {
		if at > v.at {
			v.keepers = k
		}
	})
}

// End records that no step follows.
func (v *View) End() { v.update(func() { v.ended = true }) }

// Fail records why this process stores no further step.
func (v *View) Fail(err error) { v.update(func() { v.failed = err }) }

// Step returns one step without waiting for it. It returns io.EOF after the end, and a *fault.Error for a step that
// is not planned yet.
func (v *View) Step(ctx context.Context, step uint64) (*plan.Step, error) {
	v.mu.Lock()
	s, steps, ended := v.newest[step], v.steps, v.ended
	v.mu.Unlock()
	switch {
	case s != nil:
		return s, nil
	case step < steps:
		return v.stored(ctx, step)
	case ended:
		return nil, io.EOF
	}
	return nil, NotPlanned(step, steps)
}

func NotPlanned(step, planned uint64) error {
	return &fault.Error{Reason: fault.StepNotPlanned,
		Message: fmt.Sprintf("step %d is not planned yet; the plan holds %d steps", step, planned),
		Do:      "ask for a step of the plan, or for the next one",
		Facts:   map[string]string{"step": strconv.FormatUint(step, 10), "planned": strconv.FormatUint(planned, 10)}}
}

// stored reads a step from the plan log, which holds it. A missing step means that a server lags, so it is read
// again. If the log does not return the step within patience, the error is PLAN_LOG_DOWN.
func (v *View) stored(ctx context.Context, step uint64) (*plan.Step, error) {
	limit, cancel := context.WithTimeout(ctx, v.patience)
	defer cancel()
	for {
		s, err := v.Reader.Step(limit, step)
		if !errors.Is(err, ErrNoStep) {
			return s, v.patient(ctx, limit, step, err)
		}
		if waiting.Pause(limit, behindPause) != nil {
			return nil, v.patient(ctx, limit, step, err)
		}
	}
}

// patient converts the error of reading a step into PLAN_LOG_DOWN if patience was exceeded and ctx is not done.
func (v *View) patient(ctx, limit context.Context, step uint64, err error) error {
	if err == nil || limit.Err() == nil || ctx.Err() != nil {
		return err
	}
	return &fault.Error{Reason: fault.PlanLogDown,
		Message: fmt.Sprintf("step %d could not be read from the plan log within %s", step, v.patience),
		Do:      "check the JetStream server; ask again", Err: err}
}

// FloorBefore returns a position that covers no document which this step or a later one needs.
func (v *View) FloorBefore(ctx context.Context, step uint64) (plan.Position, error) {
	if step == 0 {
		return plan.Position{}, nil
	}
	s, err := v.Step(ctx, step-1)
	if err != nil {
		return plan.Position{}, fmt.Errorf("read the floor of step %d: %w", step, err)
	}
	return s.Floor, nil
}

// Needs has a sequence for each document stream of a run, by source number: the first document that is needed, or
// that is present.
type Needs []uint64

// Reaches reports whether all documents that n needs are present. Sources that there does not list have all their
// documents.
func (n Needs) Reaches(there Needs) bool {
	for source, first := range there {
		if source < len(n) && n[source] < first {
			return false
		}
	}
	return true
}

// NeedsBehind returns what is needed after a floor. If the floor alone does not determine it, the last step before
// the floor that records source positions decides. For a given floor the result never decreases: documents that were
// released for a step stay unneeded by that step when another source is added.
func (v *View) NeedsBehind(ctx context.Context, floor plan.Position) (Needs, error) {
	infos, first, alone := v.firstBehind(floor)
	places, err := []mixture.Place(nil), error(nil)
	if !alone {
		step := func(n uint64) (*plan.Step, error) { return v.Step(ctx, n) }
		places, err = markBefore(v.Planned(), step, floor)
	}
	out := make(Needs, len(infos))
	for source := range infos {
		var place mixture.Place // of a source that was added since
		if source < len(places) {
			place = places[source]
		}
		out[source] = infos[source].Floor(place)
		if source == 0 {
			out[source] = max(out[source], infos[source].Floor(first))
		}
	}
	return out, err
}

// markBefore returns the source positions recorded by the last marked step before a floor; nil without such a step.
// planned is the number of steps, and step returns one of them.
func markBefore(planned uint64, step func(uint64) (*plan.Step, error), floor plan.Position) ([]mixture.Place, error) {
	var failed error
	marks := sort.Search(int((planned+plan.MarkSteps-1)/plan.MarkSteps), func(mark int) bool {
		s, err := step(uint64(mark) * plan.MarkSteps)
		if err != nil {
			failed = err
			return true
		}
		return !floor.Reaches(s.Cursor)
	})
	if marks == 0 || failed != nil {
		return nil, failed
	}
	at := uint64(marks-1) * plan.MarkSteps
	s, err := step(at)
	if err != nil {
		return nil, fmt.Errorf("read how far the sources were read at step %d: %w", at, err)
	}
	return s.Places, nil
}

// firstBehind returns the sources, and a lower bound of the first source's position after an arrival. alone reports
// whether the bound is exact and no other source was read by then.
func (v *View) firstBehind(floor plan.Position) (infos []plan.SourceInfo, place mixture.Place, alone bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	place, alone = v.behind.FirstPlace(floor)
	return v.behind.Infos(), place, alone
}

// NeedsOf returns what this step and later ones need.
func (v *View) NeedsOf(ctx context.Context, step uint64) (Needs, error) {
	floor, err := v.FloorBefore(ctx, step)
	if err != nil {
		return nil, err
	}
	return v.NeedsBehind(ctx, floor)
}

// OldestStep returns the first step from which on every step's documents are present.
func (v *View) OldestStep(ctx context.Context, there Needs) (uint64, error) {
	var begun Needs
	for _, s := range v.infos() { // including added sources
		begun = append(begun, s.First())
	}
	if begun.Reaches(there) {
		return 0, nil
	}
	var failed error
	n := sort.Search(int(v.Planned()), func(step int) bool {
		need, err := v.NeedsOf(ctx, uint64(step))
		if err != nil {
			failed = err
		}
		return need.Reaches(there)
	})
	return uint64(n), failed
}

// Release updates the oldest readable step from the documents that are present.
func (v *View) Release(ctx context.Context, there Needs) error {
	oldest, err := v.OldestStep(ctx, there)
	if err == nil {
		v.Released(oldest)
	}
	return err
}

// Released updates the oldest readable step.
func (v *View) Released(oldest uint64) {
	if v.Now().Oldest < oldest {
		v.update(func() { v.oldest = max(v.oldest, oldest) })
	}
}

// Lost converts DOCUMENT_LOST into STEP_RELEASED for a step that all keepers have committed, because its documents
// may be purged. Other errors are returned unchanged.
func (v *View) Lost(ctx context.Context, step uint64, err error) error {
	var e *fault.Error
	if !errors.As(err, &e) || e.Reason != fault.DocumentLost {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, v.patience)
	defer cancel()
	if follow := v.Follow(limit); follow != nil { // this process may not have read the commit yet
		return v.patient(ctx, limit, step, follow)
	}
	now := v.Now()
	if oldest := max(now.Keepers.Committed(), now.Oldest); step < oldest {
		return Released(step, oldest)
	}
	return err
}
