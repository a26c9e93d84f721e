package loader

import (
	"context"

	"loaderd/packonline"
	"loaderd/packonline/related"
)

// Needs is what the run would keep now.
func (r *Run) Needs(ctx context.Context) (uint64, error) {
	floor, err := r.leader.needs(ctx)
	return floor.Next(), err
}

// Release purges what the run does not need now, as it does by itself now and then.
func (r *Run) Release(ctx context.Context) error {
	floor, err := r.leader.needs(ctx)
	if err != nil {
		return err
	}
	return r.leader.purge(ctx, floor)
}

// NewPlanner returns the planner of a run.
func (h Header) NewPlanner() (*Planner, error) { return h.newPlanner() }

// WaitingTokens counts the tokens that the planner holds back, wherever it does.
func (p *Planner) WaitingTokens() int64 { return p.waitingTokens() }

// Hint tells a restored planner what its documents are about.
func (p *Planner) Hint(of func(sequence uint64) *related.Hint) {
	if packer, ok := p.packer.(packonline.Hinted); ok {
		for _, sequence := range packer.Unhinted() {
			packer.Hint(sequence, of(sequence))
		}
	}
}

// Shortage is what the next step lacks.
func (p *Planner) Shortage() (needed, there int) {
	s := p.shortage()
	return s.needed, s.there
}
