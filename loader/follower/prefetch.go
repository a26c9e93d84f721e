package follower

import (
	"context"
	"slices"
	"sync"
	"time"

	"loaderd/loader/assembly"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// prefetcher reads documents ahead that the next steps of a follower's readers need and the cache lacks, in stream
// order. Readers of one world share it. On the leader the documents are cached already, so it has nothing to do.
//
// The window is the set of steps that it covers. It begins at each reader's step and contains planned steps, limited
// by windowSteps and the bytes. It is computed again whenever a reader joins, leaves or has passed half of it.
type prefetcher struct {
	follower *Follower
	bytes    int64         // part of the cache that the window may fill
	wake     chan struct{} // holds a value if the window must be computed again

	mu    sync.Mutex
	steps map[uint64]*plan.Step // of the window
}

const (
	// windowSteps bounds the steps in the window of one reader.
	windowSteps = 512
	// readBatch is the number of documents read at a time: enough to read them in ranges, and few enough not to delay the
	// readers' next steps.
	readBatch = 1024
	// retryPause is the pause after a failed read of documents. Readers receive the reason.
	retryPause = time.Second
)

func newPrefetcher(f *Follower, cacheBytes int64) *prefetcher {
	// The window uses half of the cache. Documents served since the window was computed come before the rest of the
	// window, and use at most half as much as the window.
	return &prefetcher{follower: f, bytes: cacheBytes / 2, wake: make(chan struct{}, 1)}
}

// requestWindow requests another window.
func (p *prefetcher) requestWindow() { waiting.Signal(p.wake) }

// Run reads ahead until ctx is done.
func (p *prefetcher) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		if err := p.fillWindow(ctx); err != nil {
			p.follower.log.Debug("cannot prefetch documents", "error", err)
			if waiting.Sleep(ctx, retryPause) != nil {
				return
			}
			p.requestWindow()
		}
	}
}

// fillWindow reads the documents that the window lacks, until the readers need another one.
func (p *prefetcher) fillWindow(ctx context.Context) error {
	missing, needs, err := p.moveWindow(ctx)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(missing, readBatch) {
		if err := p.follower.Assembler.ReadAhead(ctx, part, needs); err != nil {
			return err
		}
		if len(p.wake) > 0 {
			return nil
		}
	}
	return nil
}

// moveWindow moves the window to the readers' positions. It returns the documents that the window lacks, in stream
// order, and the last step of the window that needs each. Cached documents of the window become the most recently used
// ones, so that served documents are evicted before needed ones.
func (p *prefetcher) moveWindow(ctx context.Context) (missing []uint64, needs map[uint64]uint64, err error) {
	w := window{assembler: p.follower.Assembler, bytesLeft: p.bytes, steps: map[uint64]*plan.Step{},
		needs: map[uint64]uint64{}}
	readers, planned := p.follower.readerWindows(), p.follower.plan.PlannedSteps()
	for range windowSteps { // in rounds, one step per reader
		grown := false
		for i := range readers {
			r := &readers[i]
			if r.end >= planned || w.bytesLeft <= 0 {
				continue
			}
			s, err := p.step(ctx, r.end)
			if err != nil {
				return nil, nil, err
			}
			w.add(s, r.place)
			r.end++
			grown = true
		}
		if !grown {
			break
		}
	}
	p.follower.scheduleWindows(readers)
	p.mu.Lock()
	p.steps = w.steps
	p.mu.Unlock()
	slices.Sort(w.missing)
	return w.missing, w.needs, nil
}

// step returns a planned step, from the window if it has it.
func (p *prefetcher) step(ctx context.Context, step uint64) (*plan.Step, error) {
	p.mu.Lock()
	s := p.steps[step]
	p.mu.Unlock()
	if s != nil {
		return s, nil
	}
	return p.follower.plan.Step(ctx, step)
}

// window is the state of a look.
type window struct {
	assembler *assembly.Assembler
	bytesLeft int64 // bytes that further documents may take
	steps     map[uint64]*plan.Step
	needs     map[uint64]uint64 // the last step of the window that needs a document
	missing   []uint64
}

// add adds a rank's rows of a step.
func (w *window) add(s *plan.Step, place state.RankID) {
	w.steps[s.Index] = s
	first, n := place.RowRange(len(s.Rows))
	if bytes, ok := w.assembler.CachedStepBytes(s.Index); ok {
		w.bytesLeft -= bytes * int64(n) / int64(len(s.Rows))
		return
	}
	for _, pieces := range s.Rows[first : first+n] {
		for _, piece := range pieces {
			last, seen := w.needs[piece.Doc]
			if seen && last >= s.Index {
				continue
			}
			w.needs[piece.Doc] = s.Index
			bytes, held := w.assembler.Touch(piece.Doc, s.Index)
			if seen {
				continue
			}
			if !held { // its length is unknown
				bytes = assembly.EstimateBytes(piece.Start + piece.Length)
				w.missing = append(w.missing, piece.Doc)
			}
			w.bytesLeft -= bytes
		}
	}
}

// readerWindow is the part of a window for one reader.
type readerWindow struct {
	reader *Reader
	place  state.RankID
	from   uint64 // first step whose rows the reader may request
	end    uint64 // the step after its last one in the window
}

// readerWindows returns the readers, each with an empty window.
func (f *Follower) readerWindows() []readerWindow {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.readers.all()
	out := make([]readerWindow, 0, len(all))
	for _, x := range all {
		out = append(out, readerWindow{x, x.place, x.neededStep, x.neededStep})
	}
	return out
}

// scheduleWindows sets the step at which each reader requests another window: in the middle of its current one.
func (f *Follower) scheduleWindows(readers []readerWindow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range readers {
		r.reader.windowStep = max(r.from+1, r.from+(r.end-r.from)/2)
	}
}
