package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"loaderd/bench/page"
	"loaderd/internal/lengths"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// neighbourhood is the number of consecutive documents of a corpus that are probably related: a site, a repository, a
// day.
const neighbourhood = 1024

// printMixtureNeighbours prints how often neighbours in training are from one neighbourhood of the corpus. The sealed
// source is read in stream order, shuffled in blocks, and shuffled globally.
func printMixtureNeighbours(ctx context.Context, b *bench, out io.Writer) error {
	n := b.planned / 2
	in := lengths.LogNormal(n, 1)
	global := order(n, 1, n)
	var m page.Markdown
	m.Values("order", "documents per block", "documents per group", "neighbouring rows that share a neighbourhood",
		"excess over a global shuffle", "rows with two documents of one", "documents per read")
	want, err := b.neighbours(ctx, in, global)
	if err != nil {
		return err
	}
	line := func(name, block, group, read string, order []uint64) error {
		f, err := b.neighbours(ctx, in, order)
		if err != nil {
			return err
		}
		m.Values(name, block, group, percent(f.rows, 2), fmt.Sprintf("%+.2f", 100*(f.rows-want.rows)), percent(f.within, 2),
			read)
		return nil
	}
	stored := make([]uint64, n)
	for i := range stored {
		stored[i] = uint64(i + 1)
	}
	if err := line("as published", "", "", "all", stored); err != nil {
		return err
	}
	for _, block := range []int{16, mixture.DefaultBlock, 64, 256, 1024} {
		walk, err := walked(n, block)
		if err != nil {
			return err
		}
		if err := line("drawn", thousands(block), thousands(max(mixture.GroupDocuments/block, 1)*block), thousands(block),
			walk); err != nil {
			return err
		}
	}
	for _, x := range [][2]int{{16, 8192}, {32, 8192}, {64, 32768}, {64, 65536}, {64, 131072}} {
		if err := line("drawn, other groups", thousands(x[0]), thousands(x[1]), thousands(x[0]),
			order(n, x[0], x[1])); err != nil {
			return err
		}
	}
	m.Values("shuffled globally", "1", thousands(n), percent(want.rows, 2), "0", percent(want.within, 2), "1")
	return m.Print(out)
}

// walked returns the order in which a run reads a sealed source of n documents.
func walked(n, block int) ([]uint64, error) {
	c := mixedConfig(map[string]mixture.Source{"corpus": {Weight: 1, Epochs: 1, Block: block}})
	m, err := mixture.New(mixture.Config{Sources: c.Sources, Mix: c.Mix, Seed: c.Seed},
		map[string]mixture.SourceRange{"corpus": {First: 1, Last: uint64(n), Sealed: true}})
	if err != nil {
		return nil, err
	}
	out := make([]uint64, n)
	walk := m.EpochOrder(0, 0)
	for k := range out {
		out[k] = walk.At(uint64(k))
	}
	return out, nil
}

// order permutes blocks of n documents, and the documents of a group of blocks among each other.
func order(n, block, group int) []uint64 {
	r := rand.New(rand.NewPCG(3, 0))
	var out []uint64
	for _, b := range r.Perm((n + block - 1) / block) {
		for s := b * block; s < min((b+1)*block, n); s++ {
			out = append(out, uint64(s+1))
		}
	}
	for docs := range slices.Chunk(out, group) {
		r.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
	}
	return out
}

// mixing is the shares of neighbours in training that were neighbours in the corpus.
type mixing struct {
	rows   float64 // of rows with a document of the same neighbourhood as in the row before
	within float64 // of rows with two documents of one neighbourhood
}

// neighbours plans documents in an order.
func (b *bench) neighbours(ctx context.Context, lengths []int32, order []uint64) (mixing, error) {
	planner, err := newPlanner(planConfig(2048))
	if err != nil {
		return mixing{}, err
	}
	var rows, shared, within float64
	var before, these []uint64
	count := func(steps []plan.Step) {
		for _, s := range steps {
			for _, row := range s.Rows {
				if len(row) == 0 {
					continue
				}
				before, these = these, neighbourhoods(before[:0], row, order)
				if slices.ContainsFunc(these, func(x uint64) bool { return slices.Contains(before, x) }) {
					shared++
				}
				distinct := slices.Compact(slices.Sorted(slices.Values(these)))
				if len(distinct) < len(these) {
					within++
				}
				rows++
			}
		}
	}
	for i, document := range order {
		if i%4096 == 0 && ctx.Err() != nil {
			return mixing{}, ctx.Err()
		}
		steps, err := planner.Add(plan.Arrival{Sequence: uint64(i + 1), Length: int(lengths[document-1])})
		if err != nil {
			return mixing{}, err
		}
		count(steps)
	}
	count(planner.Seal())
	return mixing{rows: shared / rows, within: within / rows}, nil
}

// neighbourhoods appends the neighbourhoods of a row's documents. Spans name arrivals, which order maps to documents.
func neighbourhoods(out []uint64, row []packonline.Piece, order []uint64) []uint64 {
	for _, x := range row {
		out = append(out, (order[x.Doc-1]-1)/neighbourhood)
	}
	return out
}
