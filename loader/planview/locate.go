package planview

import (
	"context"
	"errors"
	"fmt"
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

	mu   sync.Mutex
	next uint64 // the step after the one that was read last
	at   uint64 // position of its first record; 0 while unknown
}

// End describes the end of a plan log.
type End struct {
	Records uint64
	Steps   uint64
	Ended   uint64 // position of the record that ends the run; 0 without one
	Bare    bool   // only a header, inherited state and terms: nothing has been decided yet
}

// ReadHeader reads the first record of a plan: the run's name and its configuration.
func ReadHeader(ctx context.Context, log backend.PlanLog) (planrecord.Header, error) {
	return (&Reader{Log: log}).Header(ctx)
}

// Header reads the first record of the log.
func (p *Reader) Header(ctx context.Context) (planrecord.Header, error) {
	e, err := p.entry(ctx, 1)
	if err != nil {
		return planrecord.Header{}, err
	}
	h, ok := e.(planrecord.Header)
	if !ok {
		return planrecord.Header{}, fmt.Errorf("the plan begins with a record of kind %d", e.Kind())
	}
	return h, nil
}

// Heritage reads the inherited state of a fork; nil for every other run.
func (p *Reader) Heritage(ctx context.Context, h planrecord.Header) (state []byte, err error) {
	if h.Parent == nil {
		return nil, nil
	}
	for part := range h.Parent.Records {
		e, err := p.entry(ctx, 2+part)
		if err != nil {
			return nil, fmt.Errorf("read part %d of %d of what run %s inherited: %w", part, h.Parent.Records, h.Run, err)
		}
		x, ok := e.(planrecord.ForkState)
		if !ok || x.Part != part {
			return nil, Damaged(2+part, fmt.Errorf("it is not part %d of what the run inherited", part))
		}
		state = append(state, x.State...)
	}
	return state, nil
}

// End reads the log backwards to its last step. It returns an error for records that are invalid after that step.
func (p *Reader) End(ctx context.Context) (e End, err error) {
	if e.Records, err = p.Log.Last(ctx); err != nil {
		return e, err
	}
	var behind []planrecord.Entry // backwards
	for at := e.Records; at > 1; at-- {
		x, err := p.entry(ctx, at)
		if err != nil {
			return e, err
		}
		if part, ok := x.(planrecord.StepPart); ok && part.Part+1 == part.Parts {
			if part.Index+1 >= at { // every step has at least one record, and so does the header before the first
				return e, Damaged(at, fmt.Errorf("step %d cannot stand there", part.Index))
			}
			e.Steps = part.Index + 1
			break
		}
		behind = append(behind, x)
	}
	e.Bare = e.Steps == 0 && !slices.ContainsFunc(behind, func(x planrecord.Entry) bool { return !begins(x) })
	o := planrecord.Validator{Steps: e.Steps}
	for i, x := range slices.Backward(behind) {
		if err := o.Entry(x); err != nil {
			return e, Damaged(e.Records-uint64(i), err)
		}
		if o.Ended && e.Ended == 0 {
			e.Ended = e.Records - uint64(i)
		}
	}
	return e, nil
}

// begins reports whether an entry occurs in plans without any decision yet.
func begins(e planrecord.Entry) bool {
	switch e.(type) {
	case planrecord.Term, planrecord.ForkState:
		return true
	}
	return false
}

func (p *Reader) entry(ctx context.Context, at uint64) (planrecord.Entry, error) {
	b, err := p.Log.Get(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("read plan record %d: %w", at, err)
	}
	e, err := planrecord.Decode(b)
	if err != nil {
		return nil, Damaged(at, err)
	}
	return e, nil
}

// Step reads a step that the log holds.
func (p *Reader) Step(ctx context.Context, step uint64) (*plan.Step, error) {
	at, err := p.Locate(ctx, step)
	if err != nil {
		return nil, fmt.Errorf("find step %d: %w", step, err)
	}
	var j planrecord.Joiner
	for {
		e, err := p.entry(ctx, at)
		if err != nil {
			return nil, err
		}
		s, err := j.Add(e)
		if err != nil {
			return nil, Damaged(at, err)
		}
		at++
		if s != nil {
			p.mu.Lock()
			p.next, p.at = step+1, at
			p.mu.Unlock()
			return s, nil
		}
	}
}

// Locate returns the position of a step's first record. It first tries the record after the step that was read last,
// because readers read forward.
func (p *Reader) Locate(ctx context.Context, step uint64) (uint64, error) {
	last, err := p.Log.Last(ctx)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	guess := p.at
	if p.next != step {
		guess = 0
	}
	p.mu.Unlock()
	if guess == 0 {
		guess = step + 3 // after the header and the first term, if every step had one record
	}
	if at, s, err := p.stepFrom(ctx, guess, last); err == nil && s == step {
		return at, nil
	}
	lo, hi := step+2, last // the first record of the step is in [lo, hi]
	for lo < hi {
		mid := lo + (hi-lo)/2
		at, s, err := p.stepFrom(ctx, mid, last)
		if err != nil && !errors.Is(err, ErrNoStep) {
			return 0, err
		}
		if err == nil && s < step {
			lo = at + 1
		} else {
			hi = mid
		}
	}
	at, s, err := p.stepFrom(ctx, lo, last)
	switch {
	case err == nil && s < step: // step s is the last one
		err = ErrNoStep
	case err == nil && s > step:
		err = fmt.Errorf("the plan log holds step %d where step %d should be", s, step)
	}
	return at, err
}

var ErrNoStep = errors.New("no step follows in the plan log")

// stepFrom returns the first record at or after a position that begins a step. It returns an error for invalid
// records on the way.
func (p *Reader) stepFrom(ctx context.Context, from, last uint64) (at, step uint64, err error) {
	var before []planrecord.Entry
	for at := from; at <= last; at++ {
		e, err := p.entry(ctx, at)
		if err != nil {
			return 0, 0, err
		}
		if part, ok := e.(planrecord.StepPart); ok && part.Part == 0 {
			o := planrecord.Validator{Steps: part.Index}
			for i, passed := range before {
				if err := o.Entry(passed); err != nil {
					return 0, 0, Damaged(from+uint64(i), err)
				}
			}
			if err := o.Step(&part.Step); err != nil {
				return 0, 0, Damaged(at, err)
			}
			return at, part.Index, nil
		}
		before = append(before, e)
	}
	return 0, 0, ErrNoStep
}

// Holds calls f with every row of a step that contains a part of a document.
func Holds(s *plan.Step, document uint64, f func(s *plan.Step, row int, pieces []packonline.Piece) error) error {
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

// Damaged returns the error for an unusable plan record, with advice.
func Damaged(at uint64, err error) error {
	var noted *planrecord.ForeignError
	if errors.As(err, &noted) {
		at = noted.At
	}
	return fmt.Errorf("plan record %d: %w; the plan log is damaged there: restore its stream from a backup, "+
		"or copy what stands before it into a usable plan with loaderd repair", at, err)
}

// ErrFound stops a scan.
var ErrFound = errors.New("found")

// Covers decodes a checkpoint and reports whether it belongs to this plan of that many records.
func (p *Reader) Covers(ctx context.Context, h planrecord.Header, checkpoint []byte,
	records uint64) (planrecord.Checkpoint, bool) {
	c, err := planrecord.DecodeCheckpoint(checkpoint)
	if err != nil || c.Fingerprint != h.Fingerprint || c.Tail.Position > records {
		return c, false
	}
	record, err := p.Log.Get(ctx, c.Tail.Position)
	return c, err == nil && planrecord.TailOf(c.Tail.Position, record) == c.Tail
}
