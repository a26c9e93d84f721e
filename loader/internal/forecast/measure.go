package forecast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"loaderd/loader/document"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/state"
)

// errChanged means that a control was recorded during a measurement, which is therefore obsolete.
var errChanged = errors.New("the run was changed while it was measured")

const (
	// measuredTogether is the number of documents read at a time for measuring. It is small so that measuring stops soon
	// when readers wait.
	measuredTogether = 256
	// measuredKept bounds the kept lengths of sources that repeat, in documents of all sources.
	measuredKept = 1 << 19
	// measureRetry is the pause after a failed read of documents.
	measureRetry = time.Second
	// measurePause is how long measuring pauses each time a reader waits.
	measurePause = 100 * time.Millisecond
)

// measuring plans a copy of the run to its end, from the lengths of the documents only. The leader does this
// concurrently with the run. At any time it has at most one request, for measuredTogether documents. It is throttled
// while ranks read, and pauses while a rank waits for a step.
type measuring struct {
	e        *Estimator
	throttle throttle
	Copied
	applier *planner.Applier
	reading map[int]*lengths
	kept    map[int][]plan.Arrival // by source, of documents that repeat
	room    int
	known   state.Length
}

// count counts the steps of a run that has no open source. known is the current estimate.
func (f *forecast) count(ctx context.Context, c Copied, known state.Length) (steps uint64, err error) {
	m := measuring{e: f.e, throttle: f.throttle, Copied: c, reading: map[int]*lengths{}, kept: map[int][]plan.Arrival{},
		room: measuredKept, known: known}
	if m.applier, err = f.e.play(ctx, c); err != nil {
		return 0, err
	}
	for n := 1; ; n++ {
		if n%measuredTogether == 0 { // kept documents are not read
			if err := m.pause(ctx); err != nil {
				return 0, err
			}
		}
		if err := m.applier.Settle(func(planner.Ready) error { return nil }); err != nil {
			return 0, err
		}
		if m.applier.Ended {
			break
		}
		source, sequence, ok := m.applier.Planner.Wants()
		if !ok {
			return 0, errors.New("sources have documents left, and none of them a weight: the run does not end")
		}
		a, err := m.arrival(ctx, source, sequence)
		if err != nil {
			return 0, err
		}
		if _, err := m.applier.Document(a); err != nil {
			return 0, err
		}
	}
	return m.applier.Planner.Next(), nil
}

// arrival returns the planner's input for the next document.
func (m *measuring) arrival(ctx context.Context, source int, sequence uint64) (plan.Arrival, error) {
	place := m.applier.Planner.Mixture().Place(source)
	x := m.reading[source]
	if x == nil || x.epoch != place.Epoch {
		var err error
		if x, err = m.open(ctx, source, place.Epoch, place.Taken); err != nil {
			return plan.Arrival{}, err
		}
		m.reading[source] = x
	}
	a, err := x.next(ctx, sequence)
	a.Source = source
	return a, err
}

// open starts to read an epoch of a source.
func (m *measuring) open(ctx context.Context, source int, epoch, taken uint64) (*lengths, error) {
	streams, err := m.e.streams.All(ctx, m.e.run.Header())
	if err != nil {
		return nil, err
	}
	x := &lengths{docs: streams[source].Documents, epoch: epoch, at: taken, pause: m.pause}
	mix := m.applier.Planner.Mixture()
	x.walk = mix.Walk(source, epoch)
	if m.kept[source] == nil && !m.relates(source) && mix.Config(source).Epochs.Another(epoch+1) &&
		x.walk.Len() <= uint64(m.room) {
		m.room -= int(x.walk.Len())
		m.kept[source] = make([]plan.Arrival, x.walk.Len())
	}
	x.kept = m.kept[source]
	return x, nil
}

// relates reports whether the planner uses packing hints of a source's documents, which are too large to keep.
func (m *measuring) relates(source int) bool {
	return m.e.run.Header().Config.PackingOf(m.applier.Planner.Mixture().Config(source)).Related() != nil
}

// pause returns errChanged if the measurement is obsolete, and throttles it while ranks read.
func (m *measuring) pause(ctx context.Context) error {
	if m.e.Controls() != m.Controls {
		return errChanged
	}
	if m.known.Steps > 0 {
		m.known.Measured = min(float64(m.applier.Planner.Next())/float64(m.known.Steps), 0.999)
		m.e.tells(m.known, m.Controls)
	}
	if m.e.run.WaitedFor() {
		if err := waiting.Pause(ctx, measurePause); err != nil {
			return err
		}
		m.throttle.begin()
	}
	return m.throttle.rest(ctx)
}

// lengths reads the planner's input for the documents of a source, in the order of an epoch. It keeps no tokens.
type lengths struct {
	docs  document.Documents
	walk  *mixture.Walk
	epoch uint64
	at    uint64 // place of the next document to read
	order []uint64
	held  map[uint64]plan.Arrival
	kept  []plan.Arrival // documents already read, by distance from the first; nil if none are kept
	pause func(context.Context) error
}

// next returns the next document, which must have that sequence.
func (x *lengths) next(ctx context.Context, sequence uint64) (plan.Arrival, error) {
	if len(x.order) == 0 {
		order, first := x.walk.Group(x.at)
		x.order = slices.Clone(order[first:])
		x.at += uint64(len(x.order))
		if err := x.read(ctx); err != nil {
			return plan.Arrival{}, err
		}
	}
	if x.order[0] != sequence {
		return plan.Arrival{}, fmt.Errorf("document %d comes where %d should", x.order[0], sequence)
	}
	x.order = x.order[1:]
	return x.held[sequence], nil
}

// read reads the documents of a group.
func (x *lengths) read(ctx context.Context) error {
	x.held = make(map[uint64]plan.Arrival, len(x.order))
	var wanted []uint64
	for _, sequence := range x.order {
		if x.kept != nil && x.kept[sequence-x.walk.First].Sequence > 0 {
			x.held[sequence] = x.kept[sequence-x.walk.First]
			continue
		}
		wanted = append(wanted, sequence)
	}
	slices.Sort(wanted)
	for len(wanted) > 0 {
		n := min(measuredTogether, len(wanted))
		if err := x.several(ctx, wanted[:n]); err != nil {
			return err
		}
		if err := x.pause(ctx); err != nil {
			return err
		}
		wanted = wanted[n:]
	}
	return nil
}

// several reads documents, and retries those that could not be read.
func (x *lengths) several(ctx context.Context, sequences []uint64) error {
	var mu sync.Mutex
	for {
		err := x.docs.Again(ctx, sequences, func(d document.Document) {
			mu.Lock()
			defer mu.Unlock()
			a := d.Arrival().Lengths()
			x.held[d.Sequence] = a
			if x.kept != nil {
				x.kept[d.Sequence-x.walk.First] = a.Bare()
			}
		})
		sequences = slices.DeleteFunc(slices.Clone(sequences), func(s uint64) bool { return x.held[s].Sequence > 0 })
		if len(sequences) == 0 {
			return nil
		}
		if err == nil {
			if _, err := x.docs.Content(ctx, sequences[0]); err != nil {
				return fmt.Errorf("read document %d: %w", sequences[0], err)
			}
		}
		if err := waiting.Pause(ctx, measureRetry); err != nil {
			return err
		}
		if err := x.pause(ctx); err != nil {
			return err
		}
	}
}
