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

// Lost is a control of a damaged plan that its copy will not contain.
type Lost struct {
	Record uint64 `json:"record"` // its position; 0 if only a checkpoint contains it
	What   string `json:"what"`   // for example: drain behind document 120
	shapes bool   // whether steps depend on it
}

// Damage is the result of Inspect.
type Damage struct {
	Run     string `json:"run"`
	Records uint64 `json:"records"` // up to the last usable one
	Steps   uint64 `json:"steps"`   // number in those records
	Why     string `json:"why"`     // how the plan is damaged after them; empty if undamaged
	// Lost are the controls after Records. Each of the Unknown records may have been another one.
	Lost    []Lost `json:"lost,omitempty"`
	Unknown uint64 `json:"unknown"` // unreadable records after Records, without those known to be steps
	// OnceRecords and OnceSteps are the former length of the plan, as far as its records and checkpoints show.
	OnceRecords uint64 `json:"once_records"`
	OnceSteps   uint64 `json:"once_steps"`

	header planrecord.Header
	usable []backend.Stored // checkpoints that match
}

// Same reports whether a run that continues with the copy plans the same steps as before. It does if no control that
// affects steps is lost.
func (d Damage) Same() bool {
	return d.Unknown == 0 && !slices.ContainsFunc(d.Lost, func(l Lost) bool { return l.shapes })
}

// recordPatience bounds the wait for a record, because a damaged log may lack it.
const recordPatience = 10 * time.Second

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
		return d, fmt.Errorf("the plan has no header that can be read (%s): nothing of it can be used", d.Why)
	}
	if d.header.Parent != nil && d.Records <= d.header.Parent.Records {
		return d, fmt.Errorf(
			"what the run inherited of run %s cannot be read (%s): nothing of the plan can be used; fork that run again",
			d.header.Parent.Run, d.Why)
	}
	d.OnceRecords, d.OnceSteps = last, d.Steps
	if d.Why != "" {
		in.behind(ctx, d.Records+1, last)
	}
	if err := in.checkpoints(ctx, checkpoints); err != nil {
		return d, err
	}
	unread := in.unread + d.OnceRecords - last
	missing := d.OnceSteps - d.Steps
	missing -= min(missing, in.later)
	d.Unknown = unread - min(unread, missing) // every step has at least one record
	return d, nil
}

// inspect reads the usable part of a plan.
func inspect(ctx context.Context, log backend.PlanLog, last, before uint64) (*inspection, error) {
	in := &inspection{Damage: &Damage{}, plan: log}
	if before == 0 {
		before = last + 1
	}
	for at := uint64(1); at <= min(last, before-1) && in.Why == ""; at++ {
		err := in.next(ctx, at)
		var noted *planrecord.ForeignError
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return in, err
		case errors.As(err, &noted) && noted.At > 1 && noted.At < at: // the records from there on are foreign
			in, err = inspect(ctx, log, last, noted.At)
			in.Why, in.foreign = fmt.Sprintf("record %d: %v, in record %d", noted.At, noted, at), at
			return in, err
		default:
			in.Why = fmt.Sprintf("record %d: %v", at, err)
		}
	}
	switch cut := in.records.Incomplete(); {
	case in.Why != "":
	case before <= last:
		in.Why = fmt.Sprintf("record %d: it and what follows are not to be used", before)
	case cut != nil:
		in.Why = fmt.Sprintf("record %d: %v", last, cut)
	}
	return in, nil
}

// inspection is the state of an Inspect.
type inspection struct {
	*Damage
	plan    backend.PlanLog
	records planrecord.Reader // after the header
	foreign uint64            // last of the records after the usable part that are marked as foreign
	// controls are the seals and drains of the usable part.
	controls []planrecord.Control
	// Numbers of records after the usable part:
	unread uint64 // unreadable
	later  uint64 // first record of a step
}

func (in *inspection) read(ctx context.Context, at uint64) (planrecord.Entry, error) {
	limit, cancel := context.WithTimeout(ctx, recordPatience)
	defer cancel()
	b, err := in.plan.Get(limit, at)
	if err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	return planrecord.Decode(b)
}

// next reads the next record of the usable part.
func (in *inspection) next(ctx context.Context, at uint64) error {
	e, err := in.read(ctx, at)
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
	if !in.records.Complete() {
		return nil
	}
	if c, ok := e.(planrecord.Control); ok {
		in.controls = append(in.controls, c)
	}
	in.Records, in.Steps = at, in.records.Steps
	return nil
}

// behind examines the records after the usable part.
func (in *inspection) behind(ctx context.Context, from, last uint64) {
	for at := max(from, in.foreign+1); at <= last; at++ {
		e, err := in.read(ctx, at)
		var foreign *fault.Error
		if errors.As(err, &foreign) && foreign.Reason == fault.PlanForeign {
			continue // it was never in effect
		}
		if err != nil {
			in.unread++
			continue
		}
		switch e.(type) {
		case planrecord.Term, planrecord.Foreign:
			continue // the copy has its own leaders
		}
		part, ok := e.(planrecord.StepPart)
		if !ok {
			_, shapes := e.(planrecord.Control)
			in.Lost = append(in.Lost, Lost{at, planview.Describe(e), shapes})
			continue
		}
		in.OnceSteps = max(in.OnceSteps, part.Index+1)
		if part.Part == 0 && part.Index >= in.Steps {
			in.later++
		}
	}
}

// checkpoints finds the checkpoints that a copy can use. The other ones show how long the plan was.
func (in *inspection) checkpoints(ctx context.Context, stored backend.Checkpoints) error {
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
				planrecord.TailOf(c.Tail.Position, rec) == c.Tail {
				in.usable = append(in.usable, s)
			}
			continue
		}
		if s.Step >= in.Steps {
			in.beyond(s, c)
		}
	}
	return nil
}

// beyond uses a checkpoint that was taken after the usable part of the log. It shows how long the plan was, and which
// controls are lost.
func (in *inspection) beyond(s backend.Stored, c planrecord.Checkpoint) {
	if in.Why == "" {
		in.Why = fmt.Sprintf("it ends with record %d and %d steps, and checkpoint %s was taken behind record %d, at step %d",
			in.Records, in.Steps, s.Name, c.Tail.Position, s.Step)
	}
	in.OnceRecords, in.OnceSteps = max(in.OnceRecords, c.Tail.Position), max(in.OnceSteps, s.Step)
	for _, p := range c.Pending { // not in effect yet at that point
		what := planview.Describe(p)
		if !slices.ContainsFunc(in.Lost, func(l Lost) bool {
			return l.What == what
		}) && !slices.ContainsFunc(in.controls, func(c planrecord.Control) bool { return reflect.DeepEqual(c, p) }) {
			in.Lost = append(in.Lost, Lost{0, what, true})
		}
	}
}

// Config is the configuration of the run.
func (d Damage) Config() runconfig.Config { return d.header.Config }

// copyRecords and copyBytes bound one append of a copy.
const (
	copyRecords = 256
	copyBytes   = 8 << 20
)

// Copy copies the usable part of a damaged plan, and the matching checkpoints, into the empty log of a run with
// another name. If interrupted, another call continues the copy. Until the copy is finished no daemon serves it. The
// damaged plan is not changed.
func (d Damage) Copy(ctx context.Context, from backend.Backends, name string, to backend.Backends,
	progress func(records uint64)) error {
	h := d.header
	if h.Algorithm != planner.AlgorithmVersion {
		return fmt.Errorf("copy plan: %s: repair it with the binary that planned it", planview.OtherAlgorithm(h))
	}
	var was []string
	if h.Repair != nil {
		was = h.Repair.Was
	}
	h.Keyed = to.Keyed
	h.Run, h.Repair = name, &planrecord.Repair{Was: append(slices.Clone(was), d.Run), Records: d.Records,
		Steps: d.OnceSteps}
	next, err := d.compare(ctx, from.Plan, planrecord.Encode(h), to)
	if err != nil {
		return fmt.Errorf("copy plan of run %s to run %s: %w", d.Run, name, err)
	}
	begun := next > 1
	if err := d.begin(ctx, to, h, begun); err != nil {
		return fmt.Errorf("begin run %s: %w", name, err)
	}
	if !begun {
		next++
	}
	for next <= d.Records {
		var records [][]byte
		for size := 0; next+uint64(len(records)) <= d.Records && len(records) < copyRecords && size < copyBytes; {
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
	for _, checkpoint := range d.usable {
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

// begin writes the header of a copy, unless it has begun. The new run needs only the documents that the stream still
// holds, because the damaged one had no more.
func (d Damage) begin(ctx context.Context, to backend.Backends, h planrecord.Header, begun bool) error {
	all, err := planview.NewStreams(to, nil).All(ctx, h)
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
			if _, err := x.LowWatermarks.Begin(ctx, x.Start); err != nil {
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

// compare returns the position at which a copy continues, 1 if it has not begun. It returns an error for a log of
// another plan.
func (d Damage) compare(ctx context.Context, from backend.PlanLog, header []byte,
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
