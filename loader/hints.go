package loader

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"loaderd/packonline"
	"loaderd/packonline/related"
)

// hintsAtOnce is how many documents are asked for at a time.
const hintsAtOnce = 32

// hint tells a restored planner what its waiting documents are about: a checkpoint holds references, so they are read again. Packing
// methods that look at lengths alone need nothing.
func hint(ctx context.Context, p *Planner, documents Documents) error {
	packer, ok := p.packer.(packonline.Hinted)
	if !ok {
		return nil
	}
	sequences := packer.Unhinted()
	hints := make([]*related.Hint, len(sequences))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(hintsAtOnce)
	for i, sequence := range sequences {
		g.Go(func() (err error) {
			if hints[i], err = documents.Hint(ctx, sequence); err != nil {
				return fmt.Errorf("read what document %d is about: %w", sequence, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, sequence := range sequences {
		packer.Hint(sequence, hints[i])
	}
	return nil
}
