package planview

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"loaderd/loader/plan"
	"loaderd/loader/planner"
)

// maxHintReads is the number of documents read concurrently.
const maxHintReads = 32

// RestoreHints reads the packing hints of the documents buffered in a restored planner, because checkpoints do not
// contain them. It reads nothing for packing methods that use only lengths.
func RestoreHints(ctx context.Context, p *planner.Planner, documents *Streams) error {
	sequences := p.MissingHints()
	parts := make([][]plan.Part, len(sequences))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxHintReads)
	for i, sequence := range sequences {
		g.Go(func() (err error) {
			if parts[i], err = documents.PackingHints(ctx, sequence); err != nil {
				return fmt.Errorf("read what %s is about: %w", documents.DocumentName(sequence), err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, sequence := range sequences {
		p.RestoreHints(sequence, parts[i])
	}
	return nil
}
