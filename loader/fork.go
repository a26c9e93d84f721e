package loader

import (
	"context"
	"fmt"

	"loaderd/loader/plan"
)

// Fork returns the header of a run that goes on where step of another run begins, with a configuration of its own, and the header of the
// other run: every token that the other run's steps before that one do not hold is planned again, and no other. docs is the document
// stream, which must be the other run's.
// Documents below the floor of step are fed again only for their ids, as many as documents.dedupe looks back. ForkSources does it for runs with several sources.
func Fork(ctx context.Context, parent PlanLog, step uint64, name string, c plan.Config, docs StreamState) (forked, from plan.Header, err error) {
	p := &planReader{log: parent}
	old, err := p.header(ctx)
	if err != nil {
		return forked, from, fmt.Errorf("fork: read the parent's header: %w", err)
	}
	if old.Config.Mixed() || c.Mixed() {
		return forked, from, fmt.Errorf("fork: %w", oneKind(old))
	}
	if err := madeOf(old.Run, old.Stream, docs.Stream); err != nil {
		return forked, from, fmt.Errorf("fork: %w", err)
	}
	if err := documentsAs(old, c); err != nil {
		return forked, from, fmt.Errorf("fork: %w", err)
	}
	end, err := p.end(ctx)
	if err != nil {
		return forked, from, fmt.Errorf("fork: read the end of the parent's plan: %w", err)
	}
	if step > end.steps {
		return forked, from, fmt.Errorf("fork: %w", notPlanned(step, end.steps))
	}
	c = c.Settled()
	h := plan.Header{Format: plan.FormatVersion, Algorithm: plan.AlgorithmVersion, Run: name, ID: newID(),
		Fingerprint: c.Fingerprint(), Stream: docs.Stream, Config: c}
	used, err := p.usedBefore(ctx, step, old)
	if err != nil {
		return forked, from, fmt.Errorf("fork: %w", err)
	}
	h.Parent = used.Parent(old, step)
	floor := h.Parent.Floor
	if !used.Floor.Reaches(plan.Before(docs.First)) {
		return forked, from, fmt.Errorf("fork: %w", &Error{Reason: DocumentLost,
			Message: fmt.Sprintf("step %d of run %s needs documents from %d on, and the stream begins at %d", step, old.Run, floor, docs.First),
			Do:      "fork at a later step"})
	}
	h.Start = max(docs.First, old.Start, floor-min(floor, uint64(c.Documents.Dedupe)))
	return h, old, nil
}

// usedBefore finds what the steps of a plan before one hold of documents that are not used up, those included that its own parent had used.
func (p *planReader) usedBefore(ctx context.Context, before uint64, h plan.Header) (*plan.Inheritance, error) {
	used, err := h.Inherits()
	if err != nil {
		return nil, err
	}
	if used == nil {
		used = plan.NewInheritance(h.Start)
	}
	for step := before; step > 0; step-- {
		s, err := p.step(ctx, step-1)
		if err != nil {
			return nil, err
		}
		if step == before {
			used.Floor, used.Cursor = s.Floor, used.Cursor.Most(s.Cursor)
		}
		if used.Floor.Reaches(s.Cursor) {
			break
		}
		used.Use(s)
	}
	return used, nil
}
