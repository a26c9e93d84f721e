package demo

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"loaderd/internal/api"
	"loaderd/internal/flightclient"
	"loaderd/loader/runconfig"
)

// ranks are the readers of a data-parallel job. Every rank has its own stream. No rank starts a step before all ranks
// have finished the previous step, as with the collectives of a training step.
type ranks struct {
	world        int
	dir          string      // data folder of the daemon
	rows         map[int]int // per step over all ranks, by row length
	steps        atomic.Uint64
	tokens       atomic.Int64
	firstOnce    sync.Once
	onFirstBatch func() // called with the first batch
}

func newRanks(world int, dir string, c runconfig.Config, began func()) *ranks {
	r := &ranks{world: world, dir: dir, rows: map[int]int{}, onFirstBatch: began}
	for i, rows := range c.Steps.RowsPerBucket(c.Packing.Buckets) {
		r.rows[c.Packing.Buckets[i]] = rows
	}
	return r
}

// stepShare is one rank's part of a step, or the end of its stream.
type stepShare struct {
	rank   int
	end    bool
	step   uint64
	bucket int
	rows   int
	tokens int64 // counted, without padding
}

// readRun reads the whole run on every rank and compares their shares of every step.
func (r *ranks) readRun(ctx context.Context, uri string) error {
	group, ctx := errgroup.WithContext(ctx)
	shares := make(chan stepShare)
	release := make([]chan struct{}, r.world)
	for rank := range r.world {
		release[rank] = make(chan struct{})
		group.Go(func() error { return r.readRank(ctx, uri, rank, shares, release[rank]) })
	}
	group.Go(func() error { return r.compareShares(ctx, shares, release) })
	return group.Wait()
}

// readRank reads one rank's batches. It reports each step after its last part, and continues when it is released.
func (r *ranks) readRank(ctx context.Context, uri string, rank int, shares chan<- stepShare,
	release <-chan struct{}) error {
	client, err := flightclient.Open(uri, flightclient.Options{Reuse: true, Report: true, DataDir: r.dir})
	if err != nil {
		return err
	}
	defer client.Close()
	report := func(s stepShare) error {
		select {
		case shares <- s:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s, parts := stepShare{rank: rank}, 0
	err = client.Read(ctx, api.Ticket{Rank: rank, World: r.world}, func(b flightclient.Batch) error {
		r.firstOnce.Do(r.onFirstBatch)
		tokens := int64(0)
		for _, segment := range b.SegmentIDs {
			if segment > 0 {
				tokens++
			}
		}
		switch {
		case tokens != b.Meta.Tokens:
			return fmt.Errorf("rank %d: step %d holds %d tokens, its metadata states %d", rank, b.Meta.Step, tokens,
				b.Meta.Tokens)
		case b.Meta.Part != parts || parts > 0 && (b.Meta.Step != s.step || b.L != s.bucket):
			return fmt.Errorf("rank %d: got part %d of step %d, with rows of %d tokens, want part %d of step %d", rank,
				b.Meta.Part, b.Meta.Step, b.L, parts, s.step)
		}
		s.step, s.bucket, parts = b.Meta.Step, b.L, parts+1
		s.rows, s.tokens = s.rows+b.Rows, s.tokens+tokens
		if parts < b.Meta.Parts {
			return nil
		}
		done := s
		s, parts = stepShare{rank: rank}, 0
		return report(done)
	})
	switch {
	case err != nil:
		return err
	case parts > 0:
		return fmt.Errorf("rank %d: the run ended within step %d", rank, s.step)
	}
	return report(stepShare{rank: rank, end: true})
}

// compareShares receives a share from every rank per step, until all have ended.
func (r *ranks) compareShares(ctx context.Context, shares <-chan stepShare, release []chan struct{}) error {
	for step := uint64(0); ; step++ {
		got := make([]stepShare, 0, r.world)
		for range r.world {
			select {
			case s := <-shares:
				got = append(got, s)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := checkAgreement(got, step, r.rows[got[0].bucket]); err != nil {
			return err
		}
		for _, s := range got {
			r.tokens.Add(s.tokens)
		}
		if !got[0].end {
			r.steps.Store(step + 1)
		}
		for _, c := range release {
			select {
			case c <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if got[0].end {
			return nil
		}
	}
}

// checkAgreement checks that all shares belong to the expected step, have equal shapes, and together contain all its
// rows, or that all ranks have ended.
func checkAgreement(got []stepShare, step uint64, rows int) error {
	first := got[0]
	for _, s := range got {
		switch {
		case s.end != first.end:
			return fmt.Errorf("readers disagree: at step %d rank %d has ended: %v, rank %d: %v", step, first.rank, first.end,
				s.rank, s.end)
		case s.end:
		case s.step != step:
			return fmt.Errorf("rank %d got step %d, want step %d", s.rank, s.step, step)
		case s.bucket != first.bucket:
			return fmt.Errorf("readers disagree on step %d: rank %d has rows of %d tokens, rank %d of %d", step, first.rank,
				first.bucket, s.rank, s.bucket)
		case s.rows*len(got) != rows:
			return fmt.Errorf("rank %d of %d got %d of the %d rows of step %d", s.rank, len(got), s.rows, rows, step)
		}
	}
	return nil
}
