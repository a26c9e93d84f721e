package loader

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
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
)

// planView is what one process knows of a run's plan: what its log holds, with the newest steps in memory. The leader adds the steps that
// it has stored; followers read them and wait for more. Besides demand it is all that leader and followers share.
// Where the leader is another process, the view follows the log.
type planView struct {
	log      backend.PlanLog
	reader   *planReader
	config   plan.Config   // of this process, which the plan's must equal
	recent   uint64        // how many steps are kept in memory
	patience time.Duration // how long reading a step from the log may take

	mu        sync.Mutex
	header    plan.Header       // of the plan; while begun is false, the one that this process would write
	begun     bool              // the plan has a header
	at        uint64            // last record that was taken in
	behind    plan.RecordReader // of the records behind it
	changed   chan struct{}     // closed and replaced when one of the fields below changes
	confirmed uint64            // last record that a leader elsewhere has confirmed
	daemon    string            // that began the last term of them; empty when that is not known
	steps     uint64            // that the log holds
	ended     bool              // no step follows
	endAt     uint64            // record that says so; 0 while none was read
	keepers   plan.Keepers
	left      []string // keepers that have left since departures was called
	oldest    uint64   // steps before it cannot be read: their documents are purged
	failed    error    // why this process stores no further step, though the run has not ended
	newest    map[uint64]*plan.Step
}

func newPlanView(log backend.PlanLog, c plan.Config, o backend.Options) *planView {
	return &planView{log: log, config: c, reader: &planReader{log: log}, recent: uint64(o.Ahead) + recentSteps, patience: o.Stall,
		changed: make(chan struct{}), keepers: plan.Keepers{}, newest: map[uint64]*plan.Step{}}
}

// recentSteps is how many steps beyond Options.Ahead are kept in memory; older ones are read from the plan log.
const recentSteps = 64

// planned is what a planView knew at one moment.
type planned struct {
	steps   uint64
	ended   bool
	keepers plan.Keepers
	oldest  uint64
	failed  error
	changed <-chan struct{} // closed when any of this changes
}

// now returns what is known at this moment.
func (v *planView) now() planned {
	v.mu.Lock()
	defer v.mu.Unlock()
	return planned{v.steps, v.ended, maps.Clone(v.keepers), v.oldest, v.failed, v.changed}
}

// head returns the plan's header; before it has begun, the one that this process would write.
func (v *planView) head() (h plan.Header, begun bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.header, v.begun
}

// infos returns the sources of the run, as far as the plan is known.
func (v *planView) infos() []plan.SourceInfo {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.behind.Infos()
}

// position returns the last record that is known.
func (v *planView) position() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.at
}

// ledBy reports whether a daemon leads, as far as the plan's terms tell.
func (v *planView) ledBy(daemon string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.daemon == "" || v.daemon == daemon
}

// planned returns the number of steps that the log holds.
func (v *planView) planned() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.steps
}

// update changes what is known and wakes those who wait.
func (v *planView) update(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
	close(v.changed)
	v.changed = make(chan struct{})
}

// opened takes in what a leader has read of the plan, before it plans anything.
func (v *planView) opened(l *leader) {
	v.update(func() {
		if !v.begun || !l.fresh { // the header of a plan that is there is none that this process would write
			v.header, v.begun = l.header, !l.fresh
		}
		v.steps = max(v.steps, l.found.steps)
		if l.tail.Position > v.at { // what lies between here and the end of the plan is taken in by a replay, or when the view follows the log
			v.at, v.behind, v.keepers, v.daemon = l.tail.Position, plan.RecordReader{Validator: l.order()}, l.applier.Keepers, ""
			v.ended = v.ended || v.behind.Ended
		}
	})
}

// extend makes a stored step readable.
func (v *planView) extend(s *plan.Step) { v.update(func() { v.add(s) }) }

// add makes a stored step readable. The caller holds mu.
func (v *planView) add(s *plan.Step) {
	if s.Index+v.recent < v.steps {
		return // long known, and read from the log when it is asked for
	}
	v.steps = max(v.steps, s.Index+1)
	v.newest[s.Index] = s
	delete(v.newest, s.Index-v.recent)
}

// replayed notes that this process has planned the records up to one again, and who keeps checkpoints by them.
func (v *planView) replayed(at uint64, behind plan.RecordReader, k plan.Keepers) {
	v.update(func() {
		if at > v.at {
			v.at, v.behind, v.begun, v.keepers, v.daemon = at, behind, true, k, ""
		}
	})
}

// wrote notes that this process has stored records. What it writes itself stands in the order that others hold it against.
func (v *planView) wrote(w write) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, b := range w.records {
		at := w.after + uint64(i) + 1
		if at != v.at+1 {
			continue // others' records that were read since
		}
		var err error
		switch {
		case w.step == nil:
			err = v.wroteEntry(b)
		case i == len(w.records)-1:
			err = v.behind.Step(w.step)
		}
		if err != nil {
			return damaged(at, err)
		}
		v.at = at
	}
	return nil
}

// wroteEntry takes in a record between steps. The caller holds mu.
func (v *planView) wroteEntry(b []byte) error {
	e, err := plan.DecodeRecord(b)
	if err != nil {
		return err
	}
	if h, ok := e.(plan.Header); ok {
		v.begins(h)
		return nil
	}
	v.leaves(e)
	_, err = v.behind.Read(e)
	return err
}

// leaves notes a keeper that leaves. The caller holds mu.
func (v *planView) leaves(e plan.Entry) {
	if x, ok := e.(plan.Leave); ok {
		v.left = append(v.left, x.Keeper)
	}
}

// departures returns the keepers that have left since it was called before.
func (v *planView) departures() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	left := v.left
	v.left = nil
	return left
}

// begins takes in the header of the plan. The caller holds mu.
func (v *planView) begins(h plan.Header) {
	v.header, v.begun, v.behind = h, true, plan.RecordReader{Validator: h.Validator()}
}

// follow takes in the records behind the last one that is known, as far as the log shows them.
func (v *planView) follow(ctx context.Context) error {
	v.mu.Lock()
	from := v.at + 1
	v.mu.Unlock()
	return v.log.Scan(ctx, from, func(at uint64, record []byte) error {
		e, err := plan.DecodeRecord(record)
		if err != nil {
			return damaged(at, err)
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if at != v.at+1 {
			return nil // this process leads now, and knows
		}
		if err := v.take(e); err != nil {
			return damaged(at, err)
		}
		v.at = at
		close(v.changed)
		v.changed = make(chan struct{})
		return nil
	})
}

// take takes in the next record. The caller holds mu.
func (v *planView) take(e plan.Entry) error {
	if h, ok := e.(plan.Header); ok && v.at == 0 {
		v.begins(h)
		return accepts(v.config, h)
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
	case plan.Term:
		v.daemon = e.Daemon
	case plan.Commit, plan.Leave:
		v.keepers = v.keepers.Changed(e)
	case plan.End:
		v.endAt = v.at + 1
		v.ended = v.ended || v.endAt <= v.confirmed
	}
	return nil
}

// confirm notes that the leader says the plan's records up to one are its own, or were planned again by it. A record that ends the run counts
// only then: one that somebody else wrote may stand where the leader's next step will not be able to come.
func (v *planView) confirm(at uint64) {
	v.mu.Lock()
	v.confirmed = max(v.confirmed, at)
	ends := !v.ended && v.endAt != 0 && v.endAt <= v.confirmed
	v.mu.Unlock()
	if ends {
		v.end()
	}
}

// keep notes who keeps checkpoints now. Nobody changes the map afterwards.
func (v *planView) keep(k plan.Keepers) { v.update(func() { v.keepers = k }) }

// keepBy notes who keeps checkpoints by the records up to one. What is known from later records stays.
func (v *planView) keepBy(at uint64, k plan.Keepers) {
	v.update(func() {
		if at > v.at {
			v.keepers = k
		}
	})
}

// end notes that no step follows.
func (v *planView) end() { v.update(func() { v.ended = true }) }

// fail notes why this process stores no further step.
func (v *planView) fail(err error) { v.update(func() { v.failed = err }) }

// step returns one step without waiting for it: io.EOF behind the end, a *Error for one that is not planned yet.
func (v *planView) step(ctx context.Context, step uint64) (*plan.Step, error) {
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
	return nil, notPlanned(step, steps)
}

func notPlanned(step, planned uint64) error {
	return &fault.Error{Reason: fault.StepNotPlanned, Message: fmt.Sprintf("step %d is not planned yet; the plan holds %d steps", step, planned),
		Do:    "ask for a step of the plan, or for the next one",
		Facts: map[string]string{"step": strconv.FormatUint(step, 10), "planned": strconv.FormatUint(planned, 10)}}
}

// stored reads a step from the plan log, which holds it: one that has not got it yet is read from a server that is behind the others. A log that does not
// answer so within patience is PLAN_LOG_DOWN.
func (v *planView) stored(ctx context.Context, step uint64) (*plan.Step, error) {
	limit, cancel := context.WithTimeout(ctx, v.patience)
	defer cancel()
	for {
		s, err := v.reader.step(limit, step)
		if !errors.Is(err, errNoStep) {
			return s, v.patient(ctx, limit, step, err)
		}
		if pause(limit, leadPause) != nil {
			return nil, v.patient(ctx, limit, step, err)
		}
	}
}

// patient turns the error of reading what the log says of a step into PLAN_LOG_DOWN when patience ended and ctx did not.
func (v *planView) patient(ctx, limit context.Context, step uint64, err error) error {
	if err == nil || limit.Err() == nil || ctx.Err() != nil {
		return err
	}
	return &fault.Error{Reason: fault.PlanLogDown, Message: fmt.Sprintf("step %d could not be read from the plan log within %s", step, v.patience),
		Do: "check the JetStream server; ask again", Err: err}
}

// floorBefore returns a position that covers no document which this step or a later one needs.
func (v *planView) floorBefore(ctx context.Context, step uint64) (plan.Position, error) {
	if step == 0 {
		return plan.Position{}, nil
	}
	s, err := v.step(ctx, step-1)
	if err != nil {
		return plan.Position{}, fmt.Errorf("read the floor of step %d: %w", step, err)
	}
	return s.Floor, nil
}

// needs are, of each document stream of a run by the number of its source, the sequence of the first document that is needed, or that is there.
type needs []uint64

// reaches reports whether nothing that n needs lies before what is there. Of a source that there is nothing said of, all is there.
func (n needs) reaches(there needs) bool {
	for source, first := range there {
		if source < len(n) && n[source] < first {
			return false
		}
	}
	return true
}

// needsBehind returns what is needed behind a floor. Where it does not follow from the floor alone, the last step before it that says how far the sources were
// read decides.
func (v *planView) needsBehind(ctx context.Context, floor plan.Position) (needs, error) {
	infos := v.infos()
	if place, follows := v.placeBehind(floor); follows {
		return needs{infos[0].Floor(place)}, nil
	}
	var failed error
	marks := sort.Search(int((v.planned()+plan.MarkSteps-1)/plan.MarkSteps), func(mark int) bool {
		s, err := v.step(ctx, uint64(mark)*plan.MarkSteps)
		if err != nil {
			failed = err
			return true
		}
		return !floor.Reaches(s.Cursor)
	})
	var places []mixture.Place
	if marks > 0 && failed == nil {
		s, err := v.step(ctx, uint64(marks-1)*plan.MarkSteps)
		if err != nil {
			return nil, fmt.Errorf("read how far the sources were read at step %d: %w", uint64(marks-1)*plan.MarkSteps, err)
		}
		places = s.Places
	}
	out := make(needs, len(infos))
	for source := range infos {
		var place mixture.Place // of a source that was added since
		if source < len(places) {
			place = places[source]
		}
		out[source] = infos[source].Floor(place)
	}
	return out, failed
}

// placeBehind returns how far the only source is read behind an arrival, where that follows from the arrival alone.
func (v *planView) placeBehind(floor plan.Position) (mixture.Place, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.behind.Place(floor)
}

// needsOf returns what this step and later ones need.
func (v *planView) needsOf(ctx context.Context, step uint64) (needs, error) {
	floor, err := v.floorBefore(ctx, step)
	if err != nil {
		return nil, err
	}
	return v.needsBehind(ctx, floor)
}

// oldestStep returns the first step from which on no step needs a document that is not there.
func (v *planView) oldestStep(ctx context.Context, there needs) (uint64, error) {
	var begun needs
	for _, s := range v.infos() { // those that were added among them
		begun = append(begun, s.First())
	}
	if begun.reaches(there) {
		return 0, nil
	}
	var failed error
	n := sort.Search(int(v.planned()), func(step int) bool {
		need, err := v.needsOf(ctx, uint64(step))
		if err != nil {
			failed = err
		}
		return need.reaches(there)
	})
	return uint64(n), failed
}

// release notes which documents are there still, and so which steps can be read.
func (v *planView) release(ctx context.Context, there needs) error {
	oldest, err := v.oldestStep(ctx, there)
	if err == nil {
		v.released(oldest)
	}
	return err
}

// released notes from which step on steps can be read.
func (v *planView) released(oldest uint64) {
	if v.now().oldest < oldest {
		v.update(func() { v.oldest = max(v.oldest, oldest) })
	}
}

// lost turns DOCUMENT_LOST into STEP_RELEASED for a step that all keepers have committed: its documents may be purged. Other errors stay.
func (v *planView) lost(ctx context.Context, step uint64, err error) error {
	var e *fault.Error
	if !errors.As(err, &e) || e.Reason != fault.DocumentLost {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, v.patience)
	defer cancel()
	if follow := v.follow(limit); follow != nil { // that it is committed may be what this process has not read yet
		return v.patient(ctx, limit, step, follow)
	}
	now := v.now()
	if oldest := max(now.keepers.Committed(), now.oldest); step < oldest {
		return released(step, oldest)
	}
	return err
}
