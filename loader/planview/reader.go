package planview

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"loaderd/loader/backend"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/packonline"
)

// Reader finds steps in the plan log. The log has them in order, each in one record or a few, with control records
// between.
type Reader struct {
	Log backend.PlanLog

	mu        sync.Mutex
	positions map[uint64]uint64 // the record after each step that was read recently, by the step that follows
}

// maxPositions bounds the number of known positions.
const maxPositions = 1024

// LogEnd describes the end of a plan log.
type LogEnd struct {
	Records   uint64
	Steps     uint64
	EndRecord uint64 // position of the record that ends the run; 0 without one
	Bare      bool   // only a header, inherited state and terms: nothing has been decided yet
}

// ReadHeader reads the first record of a plan: the run's name and its configuration.
func ReadHeader(ctx context.Context, log backend.PlanLog) (planrecord.Header, error) {
	return (&Reader{Log: log}).Header(ctx)
}

// Header reads the first record of the log.
func (p *Reader) Header(ctx context.Context) (planrecord.Header, error) {
	e, err := p.readEntry(ctx, 1)
	if err != nil {
		return planrecord.Header{}, err
	}
	h, ok := e.(planrecord.Header)
	if !ok {
		return planrecord.Header{}, fmt.Errorf("the plan begins with a record of kind %d", e.Kind())
	}
	return h, nil
}

// ForkState reads the inherited state of a fork; nil for every other run.
func (p *Reader) ForkState(ctx context.Context, h planrecord.Header) (state []byte, err error) {
	if h.Parent == nil {
		return nil, nil
	}
	for part := range h.Parent.Records {
		e, err := p.readEntry(ctx, 2+part)
		if err != nil {
			return nil, fmt.Errorf("read part %d of %d of what run %s inherited: %w", part, h.Parent.Records, h.Run, err)
		}
		x, ok := e.(planrecord.ForkState)
		if !ok || x.Part != part {
			return nil, DamagedRecordError(2+part, fmt.Errorf("it is not part %d of what the run inherited", part))
		}
		state = append(state, x.State...)
	}
	return state, nil
}

// ReadEnd reads the log backwards to its last step. It returns an error for records that are invalid after that step.
func (p *Reader) ReadEnd(ctx context.Context) (e LogEnd, err error) {
	if e.Records, err = p.Log.Last(ctx); err != nil {
		return e, err
	}
	var behind []planrecord.Entry // backwards
	for at := e.Records; at > 1; at-- {
		x, err := p.readEntry(ctx, at)
		if err != nil {
			return e, err
		}
		if part, ok := x.(planrecord.StepPart); ok && part.Part+1 == part.Parts {
			if part.Index+1 >= at { // every step has at least one record, and so does the header before the first
				return e, DamagedRecordError(at, fmt.Errorf("step %d is out of place", part.Index))
			}
			e.Steps = part.Index + 1
			break
		}
		behind = append(behind, x)
	}
	e.Bare = e.Steps == 0 && !slices.ContainsFunc(behind, func(x planrecord.Entry) bool { return !isPreamble(x) })
	o := planrecord.Validator{Steps: e.Steps}
	for i, x := range slices.Backward(behind) {
		if err := o.CheckEntry(x); err != nil {
			return e, DamagedRecordError(e.Records-uint64(i), err)
		}
		if o.Ended && e.EndRecord == 0 {
			e.EndRecord = e.Records - uint64(i)
		}
	}
	return e, nil
}

// isPreamble reports whether an entry occurs in plans without any decision yet.
func isPreamble(e planrecord.Entry) bool {
	switch e.(type) {
	case planrecord.Term, planrecord.ForkState:
		return true
	}
	return false
}

func (p *Reader) readEntry(ctx context.Context, at uint64) (planrecord.Entry, error) {
	b, err := p.Log.Get(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("read plan record %d: %w", at, err)
	}
	e, err := planrecord.Decode(b)
	if err != nil {
		return nil, DamagedRecordError(at, err)
	}
	return e, nil
}

// Step reads a step that the log holds.
func (p *Reader) Step(ctx context.Context, step uint64) (*plan.Step, error) {
	at, part, err := p.findStep(ctx, step)
	if err != nil {
		return nil, fmt.Errorf("find step %d: %w", step, err)
	}
	var j planrecord.StepJoiner
	for e := planrecord.Entry(part); ; {
		s, err := j.Add(e)
		if err != nil {
			return nil, DamagedRecordError(at, err)
		}
		at++
		if s != nil {
			p.setPosition(step+1, at)
			return s, nil
		}
		if e, err = p.readEntry(ctx, at); err != nil {
			return nil, err
		}
	}
}

// LocateStep returns the position of a step's first record.
func (p *Reader) LocateStep(ctx context.Context, step uint64) (uint64, error) {
	at, _, err := p.findStep(ctx, step)
	return at, err
}

// setPosition records that a step begins at a position, or after records of other kinds.
func (p *Reader) setPosition(step, position uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.positions == nil || len(p.positions) >= maxPositions {
		p.positions = map[uint64]uint64{}
	}
	p.positions[step] = position
}

// findStep returns the position of a step's first record, and that record. It first tries the record after the
// preceding step, because readers read forward. This needs no request for the end of the log.
func (p *Reader) findStep(ctx context.Context, step uint64) (uint64, planrecord.StepPart, error) {
	p.mu.Lock()
	guess, ok := p.positions[step]
	p.mu.Unlock()
	if !ok {
		guess = step + 3 // after the header and the first term, if every step had one record
	}
	if at, x, err := p.nextStep(ctx, guess, math.MaxUint64); err == nil && x.Index == step {
		return at, x, nil
	}
	last, err := p.Log.Last(ctx)
	if err != nil {
		return 0, planrecord.StepPart{}, err
	}
	lo, hi := step+2, last // the first record of the step is in [lo, hi]
	for lo < hi {
		mid := lo + (hi-lo)/2
		at, x, err := p.nextStep(ctx, mid, last)
		if err != nil && !errors.Is(err, ErrNoStep) {
			return 0, x, err
		}
		if err == nil && x.Index < step {
			lo = at + 1
		} else {
			hi = mid
		}
	}
	at, x, err := p.nextStep(ctx, lo, last)
	switch {
	case err == nil && x.Index < step: // it is the last one
		err = ErrNoStep
	case err == nil && x.Index > step:
		err = fmt.Errorf("the plan log holds step %d where step %d should be", x.Index, step)
	}
	return at, x, err
}

// ErrNoStep means that the plan ends before the requested step.
var ErrNoStep = errors.New("no step follows in the plan log")

// nextStep returns the first record at or after a position, up to last, that begins a step. It returns an error for
// invalid records on the way.
func (p *Reader) nextStep(ctx context.Context, from, last uint64) (at uint64, x planrecord.StepPart, err error) {
	var before []planrecord.Entry
	for at := from; at <= last; at++ {
		e, err := p.readEntry(ctx, at)
		if err != nil {
			return 0, x, err
		}
		if part, ok := e.(planrecord.StepPart); ok && part.Part == 0 {
			o := planrecord.Validator{Steps: part.Index}
			for i, passed := range before {
				if err := o.CheckEntry(passed); err != nil {
					return 0, x, DamagedRecordError(from+uint64(i), err)
				}
			}
			if err := o.CheckStep(&part.Step); err != nil {
				return 0, x, DamagedRecordError(at, err)
			}
			return at, part, nil
		}
		before = append(before, e)
	}
	return 0, x, ErrNoStep
}

// VisitRows calls f with every row of a step that contains a part of a document.
func VisitRows(s *plan.Step, document uint64, f func(s *plan.Step, row int, pieces []packonline.Piece) error) error {
	for i, row := range s.Rows {
		var pieces []packonline.Piece
		for _, x := range row {
			if x.Doc == document {
				pieces = append(pieces, x)
			}
		}
		if len(pieces) == 0 {
			continue
		}
		if err := f(s, i, pieces); err != nil {
			return err
		}
	}
	return nil
}

// DamagedRecordError returns the error for an unusable plan record, with advice.
func DamagedRecordError(at uint64, err error) error {
	var noted *planrecord.ForeignError
	if errors.As(err, &noted) {
		at = noted.Position
	}
	return fmt.Errorf("plan record %d: %w; the plan log is damaged there: restore its stream from a backup, or copy the "+
		"records before it to a usable plan with loaderd run repair", at, err)
}

// ErrStopScan stops a scan.
var ErrStopScan = errors.New("found")

// MatchCheckpoint decodes a checkpoint and reports whether it belongs to this plan of that many records.
func (p *Reader) MatchCheckpoint(ctx context.Context, h planrecord.Header, checkpoint []byte,
	records uint64) (planrecord.Checkpoint, bool) {
	c, err := planrecord.DecodeCheckpoint(checkpoint)
	if err != nil || c.Fingerprint != h.Fingerprint || c.Tail.Position > records {
		return c, false
	}
	record, err := p.Log.Get(ctx, c.Tail.Position)
	return c, err == nil && planrecord.NewTail(c.Tail.Position, record) == c.Tail
}
