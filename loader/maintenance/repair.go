package maintenance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
)

// LostControl is a control of a damaged plan that its copy will not contain.
type LostControl struct {
	Record       uint64 `json:"record"` // its position; 0 if only a checkpoint contains it
	Description  string `json:"what"`   // for example: flush behind document 120
	affectsSteps bool   // whether steps depend on it
}

// Damage is the result of Inspect.
type Damage struct {
	Run     string `json:"run"`
	Records uint64 `json:"records"` // up to the last usable one
	Steps   uint64 `json:"steps"`   // number in those records
	Cause   string `json:"why"`     // how the plan is damaged after them; empty if undamaged
	// LostControls are the controls after Records. Each of the Unknown records may have been another one.
	LostControls      []LostControl `json:"lost,omitempty"`
	UnreadableRecords uint64        `json:"unknown"` // unreadable records after Records, without those known to be steps
	// FormerRecords and FormerSteps are the former length of the plan, as far as its records and checkpoints show.
	FormerRecords uint64 `json:"once_records"`
	FormerSteps   uint64 `json:"once_steps"`

	header            planrecord.Header
	usableCheckpoints []backend.CheckpointInfo // checkpoints that match
}

// HasSameSteps reports whether a run that continues with the copy plans the same steps as before. It does if no control
// that affects steps is lost.
func (d Damage) HasSameSteps() bool {
	return d.UnreadableRecords == 0 && !slices.ContainsFunc(d.LostControls, func(l LostControl) bool {
		return l.affectsSteps
	})
}

// recordTimeout bounds the wait for a record, because a damaged log may lack it.
const recordTimeout = 10 * time.Second

// Inspect reads a plan that may be damaged: all records up to the last usable one, and what is left after it. Records
// from before on count as unusable; with 0, the records decide. It changes nothing.
func Inspect(ctx context.Context, plan backend.PlanLog, checkpoints backend.Checkpoints,
	before uint64) (Damage, error) {
	var d Damage
	last, err := plan.Last(ctx)
	if err != nil {
		return d, fmt.Errorf("read end of plan: %w", err)
	}
	in, err := inspect(ctx, plan, last, before)
	d = *in.Damage
	in.Damage = &d
	if err != nil {
		return d, err
	}
	if d.Records == 0 {
		return d, fmt.Errorf("the plan has no header that can be read (%s): nothing of it can be used", d.Cause)
	}
	if d.header.Parent != nil && d.Records <= d.header.Parent.Records {
		return d, fmt.Errorf(
			"what the run inherited of run %s cannot be read (%s): nothing of the plan can be used; fork that run again",
			d.header.Parent.Run, d.Cause)
	}
	d.FormerRecords, d.FormerSteps = last, d.Steps
	if d.Cause != "" {
		in.scanUnusable(ctx, d.Records+1, last)
	}
	if err := in.findCheckpoints(ctx, checkpoints); err != nil {
		return d, err
	}
	unread := in.unreadable + d.FormerRecords - last
	missing := d.FormerSteps - d.Steps
	missing -= min(missing, in.laterSteps)
	d.UnreadableRecords = unread - min(unread, missing) // every step has at least one record
	return d, nil
}

// inspect reads the usable part of a plan.
func inspect(ctx context.Context, log backend.PlanLog, last, before uint64) (*inspection, error) {
	in := &inspection{Damage: &Damage{}, plan: log}
	if before == 0 {
		before = last + 1
	}
	for at := uint64(1); at <= min(last, before-1) && in.Cause == ""; at++ {
		err := in.readNext(ctx, at)
		var noted *planrecord.ForeignError
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return in, err
		case errors.As(err, &noted) && noted.Position > 1 && noted.Position < at: // the records from there on are foreign
			in, err = inspect(ctx, log, last, noted.Position)
			in.Cause, in.lastForeign = fmt.Sprintf("record %d: %v, in record %d", noted.Position, noted, at), at
			return in, err
		default:
			in.Cause = fmt.Sprintf("record %d: %v", at, err)
		}
	}
	switch cut := in.records.CheckComplete(); {
	case in.Cause != "":
	case before <= last:
		in.Cause = fmt.Sprintf("record %d: it and what follows are not to be used", before)
	case cut != nil:
		in.Cause = fmt.Sprintf("record %d: %v", last, cut)
	}
	return in, nil
}

// inspection is the state of an Inspect.
type inspection struct {
	*Damage
	plan        backend.PlanLog
	records     planrecord.Reader // after the header
	lastForeign uint64            // last of the records after the usable part that are marked as foreign
	// controls are the seals and flushes of the usable part.
	controls []planrecord.Control
	// Numbers of records after the usable part:
	unreadable uint64 // unreadable
	laterSteps uint64 // first record of a step
}

func (in *inspection) readEntry(ctx context.Context, at uint64) (planrecord.Entry, error) {
	limit, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	b, err := in.plan.Get(limit, at)
	if err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	return planrecord.Decode(b)
}

// readNext reads the next record of the usable part.
func (in *inspection) readNext(ctx context.Context, at uint64) error {
	e, err := in.readEntry(ctx, at)
	if err != nil {
		return err
	}
	if h, ok := e.(planrecord.Header); ok && at == 1 {
		in.header, in.Run, in.records.Validator = h, h.Run, h.Validator()
		in.Records = at
		return nil
	}
	if at == 1 {
		return fmt.Errorf("it is of kind %d and no header", e.Kind())
	}
	if _, err := in.records.Read(e); err != nil {
		return err
	}
	if !in.records.IsComplete() {
		return nil
	}
	if c, ok := e.(planrecord.Control); ok {
		in.controls = append(in.controls, c)
	}
	in.Records, in.Steps = at, in.records.Steps
	return nil
}

// scanUnusable examines the records after the usable part.
func (in *inspection) scanUnusable(ctx context.Context, from, last uint64) {
	for at := max(from, in.lastForeign+1); at <= last; at++ {
		e, err := in.readEntry(ctx, at)
		var foreign *fault.Error
		if errors.As(err, &foreign) && foreign.Reason == fault.PlanForeign {
			continue // it was never in effect
		}
		if err != nil {
			in.unreadable++
			continue
		}
		switch e.(type) {
		case planrecord.Term, planrecord.Foreign:
			continue // the copy has its own leaders
		}
		part, ok := e.(planrecord.StepPart)
		if !ok {
			_, shapes := e.(planrecord.Control)
			in.LostControls = append(in.LostControls, LostControl{at, planview.DescribeEntry(e), shapes})
			continue
		}
		in.FormerSteps = max(in.FormerSteps, part.Index+1)
		if part.Part == 0 && part.Index >= in.Steps {
			in.laterSteps++
		}
	}
}

// findCheckpoints finds the checkpoints that a copy can use. The other ones show how long the plan was.
func (in *inspection) findCheckpoints(ctx context.Context, stored backend.Checkpoints) error {
	count, err := planview.ListCheckpoints(ctx, backend.Backends{Checkpoints: stored}, in.Steps == 0)
	if err != nil {
		return err
	}
	for _, s := range count {
		b, err := stored.Get(ctx, s.Name)
		if err != nil {
			return fmt.Errorf("read checkpoint %s: %w", s.Name, err)
		}
		c, err := planrecord.DecodeCheckpoint(b)
		if err != nil || c.Fingerprint != in.header.Fingerprint {
			continue
		}
		if c.Tail.Position <= in.Records {
			if rec, err := in.plan.Get(ctx, c.Tail.Position); err == nil && c.Tail.Position > 1 &&
				planrecord.NewTail(c.Tail.Position, rec) == c.Tail {
				in.usableCheckpoints = append(in.usableCheckpoints, s)
			}
			continue
		}
		if s.Step >= in.Steps {
			in.applyLaterCheckpoint(s, c)
		}
	}
	return nil
}

// applyLaterCheckpoint uses a checkpoint that was taken after the usable part of the log. It shows how long the plan
// was, and which controls are lost.
func (in *inspection) applyLaterCheckpoint(s backend.CheckpointInfo, c planrecord.Checkpoint) {
	if in.Cause == "" {
		in.Cause = fmt.Sprintf(
			"it ends with record %d and %d steps, and checkpoint %s was taken behind record %d, at step %d",
			in.Records, in.Steps, s.Name, c.Tail.Position, s.Step)
	}
	in.FormerRecords, in.FormerSteps = max(in.FormerRecords, c.Tail.Position), max(in.FormerSteps, s.Step)
	for _, p := range c.Pending { // not in effect yet at that point
		what := planview.DescribeEntry(p)
		if !slices.ContainsFunc(in.LostControls, func(l LostControl) bool {
			return l.Description == what
		}) && !slices.ContainsFunc(in.controls, func(c planrecord.Control) bool { return reflect.DeepEqual(c, p) }) {
			in.LostControls = append(in.LostControls, LostControl{0, what, true})
		}
	}
}

// Config is the configuration of the run.
func (d Damage) Config() runconfig.Config { return d.header.Config }

// maxCopyRecords and maxCopyBytes bound one append of a copy.
const (
	maxCopyRecords = 256
	maxCopyBytes   = 8 << 20
)

// Copy copies the usable part of a damaged plan, and the matching checkpoints, into the empty log of a run with
// another name. If interrupted, another call continues the copy. Until the copy is finished no daemon serves it. The
// damaged plan is not changed.
func (d Damage) Copy(ctx context.Context, from backend.Backends, name string, to backend.Backends,
	progress func(records uint64)) error {
	h := d.header
	if h.Algorithm != planner.AlgorithmVersion {
		return fmt.Errorf("copy plan: %s: repair it with the binary that planned it", planview.AlgorithmMismatch(h))
	}
	var was []string
	if h.Repair != nil {
		was = h.Repair.PreviousNames
	}
	h.Keyed = to.Keyed
	h.Run, h.Repair = name, &planrecord.Repair{PreviousNames: append(slices.Clone(was), d.Run), Records: d.Records,
		Steps: d.FormerSteps}
	next, err := d.resumePosition(ctx, from.Plan, planrecord.Encode(h), to)
	if err != nil {
		return fmt.Errorf("copy plan of run %s to run %s: %w", d.Run, name, err)
	}
	begun := next > 1
	if err := d.beginCopy(ctx, to, h, begun); err != nil {
		return fmt.Errorf("begin run %s: %w", name, err)
	}
	if !begun {
		next++
	}
	for next <= d.Records {
		var records [][]byte
		for size := 0; next+uint64(len(records)) <= d.Records && len(records) < maxCopyRecords && size < maxCopyBytes; {
			b, err := from.Plan.Get(ctx, next+uint64(len(records)))
			if err != nil {
				return fmt.Errorf("copy plan of run %s: %w", d.Run, err)
			}
			records, size = append(records, b), size+len(b)
		}
		if err := to.Plan.Append(ctx, next-1, records...); err != nil {
			return fmt.Errorf("copy plan to run %s: %w", name, err)
		}
		next += uint64(len(records))
		progress(next - 1)
	}
	for _, checkpoint := range d.usableCheckpoints {
		b, err := from.Checkpoints.Get(ctx, checkpoint.Name)
		if err == nil {
			_, err = to.Checkpoints.Put(ctx, planview.HeaderTerm, checkpoint.Step, b)
		}
		if err != nil {
			return fmt.Errorf("copy checkpoint %s to run %s: %w", checkpoint.Name, name, err)
		}
	}
	return nil
}

// beginCopy writes the header of a copy, unless it has begun. The new run needs only the documents that the stream
// still holds, because the damaged one had no more.
func (d Damage) beginCopy(ctx context.Context, to backend.Backends, h planrecord.Header, begun bool) error {
	all, err := planview.NewStreams(to, nil).RunStreams(ctx, h)
	if err != nil {
		return err
	}
	for i, x := range all {
		state, err := x.Documents.State(ctx)
		if err != nil {
			return err
		}
		all[i].Start = max(state.First, x.Start)
	}
	if !begun {
		for _, x := range all {
			if _, err := x.LowWatermarks.Register(ctx, x.Start); err != nil {
				return err
			}
		}
		if err := to.Plan.Append(ctx, 0, planrecord.Encode(h)); err != nil {
			return err
		}
	}
	if _, err = planview.ClaimCheckpoints(ctx, to, planview.HeaderTerm, true); err != nil {
		return err
	}
	for _, x := range all {
		if _, err := x.LowWatermarks.Claim(ctx, planview.HeaderTerm, x.Start); err != nil {
			return err
		}
	}
	return nil
}

// resumePosition returns the position at which a copy continues, 1 if it has not begun. It returns an error for a log
// of another plan.
func (d Damage) resumePosition(ctx context.Context, from backend.PlanLog, header []byte,
	to backend.Backends) (next uint64, err error) {
	last, err := to.Plan.Last(ctx)
	if err != nil {
		return 0, err
	}
	for next = 1; next <= last; next++ {
		want := header
		if next > d.Records {
			return 0, errors.New("there is a run of that name which has gone on: choose another name")
		}
		if next > 1 {
			if want, err = from.Get(ctx, next); err != nil {
				return 0, err
			}
		}
		have, err := to.Plan.Get(ctx, next)
		if err != nil {
			return 0, err
		}
		if !bytes.Equal(have, want) {
			return 0, errors.New("there is another run of that name: choose another name")
		}
	}
	return next, nil
}
