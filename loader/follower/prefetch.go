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

// prefetcher reads what the next steps of a follower's readers need and the cache lacks, in the order of the document
// stream and before it is asked for. Readers of one world share it. Where the plan is made the documents are in the
// cache already, and it finds nothing to do.
//
// The window is the steps that it looks at: those from each reader's step on that are planned, as many as windowSteps
// and the bytes allow. It is looked at anew whenever a reader joins, leaves or has come to the end of half of it.
type prefetcher struct {
	follower *Follower
	bytes    int64         // of the cache that the window may fill
	wake     chan struct{} // holds a value when the readers ask for another window

	mu    sync.Mutex
	steps map[uint64]*plan.Step // of the window
}

const (
	// windowSteps bounds the steps of the window of one reader.
	windowSteps = 512
	// together is how many documents are read at a time: so many that they come in ranges, so few that the readers' next
	// steps are not late.
	together = 1024
	// retryPause is the pause after documents could not be read: readers find out why.
	retryPause = time.Second
)

func newPrefetcher(f *Follower, cacheBytes int64) *prefetcher {
	// Half of the cache: what was served since the window was looked at last lies before the rest of the window, and is at
	// most half of that.
	return &prefetcher{follower: f, bytes: cacheBytes / 2, wake: make(chan struct{}, 1)}
}

// turn asks for another window.
func (p *prefetcher) turn() { waiting.Signal(p.wake) }

// Run reads ahead until ctx is done.
func (p *prefetcher) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		if err := p.fill(ctx); err != nil {
			p.follower.log.Debug("documents are not read ahead for now", "error", err)
			if waiting.Pause(ctx, retryPause) != nil {
				return
			}
			p.turn()
		}
	}
}

// fill reads what the window lacks, until the readers ask for another one.
func (p *prefetcher) fill(ctx context.Context) error {
	missing, needs, err := p.look(ctx)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(missing, together) {
		if err := p.follower.Assembler.ReadAhead(ctx, part, needs); err != nil {
			return err
		}
		if len(p.wake) > 0 {
			return nil
		}
	}
	return nil
}

// look moves the window to where the readers are and returns the documents that it lacks, in the order of the stream,
// with the last step of the window that needs each. Those that it has become the youngest of the cache: what was served
// lies before what is needed.
func (p *prefetcher) look(ctx context.Context) (missing []uint64, needs map[uint64]uint64, err error) {
	w := window{assembler: p.follower.Assembler, room: p.bytes, steps: map[uint64]*plan.Step{}, needs: map[uint64]uint64{}}
	readers, planned := p.follower.ahead(), p.follower.plan.Planned()
	for range windowSteps { // of every reader one step, then of every reader the next one
		grown := false
		for i := range readers {
			r := &readers[i]
			if r.end >= planned || w.room <= 0 {
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
	p.follower.turnAt(readers)
	p.mu.Lock()
	p.steps = w.steps
	p.mu.Unlock()
	slices.Sort(w.missing)
	return w.missing, w.needs, nil
}

// step returns a planned step, from the window where it has it.
func (p *prefetcher) step(ctx context.Context, step uint64) (*plan.Step, error) {
	p.mu.Lock()
	s := p.steps[step]
	p.mu.Unlock()
	if s != nil {
		return s, nil
	}
	return p.follower.plan.Step(ctx, step)
}

// window is what a look has found so far.
type window struct {
	assembler *assembly.Assembler
	room      int64 // bytes that further documents may take
	steps     map[uint64]*plan.Step
	needs     map[uint64]uint64 // the last step of the window that needs a document
	missing   []uint64
}

// add takes in a rank's rows of a step.
func (w *window) add(s *plan.Step, place state.Place) {
	w.steps[s.Index] = s
	first, n := place.Slice(len(s.Rows))
	if bytes, ok := w.assembler.Whole(s.Index); ok {
		w.room -= bytes * int64(n) / int64(len(s.Rows))
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
			if !held { // its length is not known yet
				bytes = assembly.MemoryOf(piece.Start + piece.Length)
				w.missing = append(w.missing, piece.Doc)
			}
			w.room -= bytes
		}
	}
}

// ahead is the part of a window that one reader wants.
type ahead struct {
	reader *Reader
	place  state.Place
	from   uint64 // the first step whose rows it may ask for
	end    uint64 // the step behind its last one in the window
}

// ahead returns the readers, each with an empty window.
func (f *Follower) ahead() []ahead {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.readers.all()
	out := make([]ahead, 0, len(all))
	for _, x := range all {
		out = append(out, ahead{x, x.place, x.reads, x.reads})
	}
	return out
}

// turnAt notes at which step each reader asks for another window: in the middle of the one that it has.
func (f *Follower) turnAt(readers []ahead) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range readers {
		r.reader.turn = max(r.from+1, r.from+(r.end-r.from)/2)
	}
}
