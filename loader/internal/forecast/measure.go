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

// errRunChanged means that a control was recorded during a measurement, which is therefore obsolete.
var errRunChanged = errors.New("the run was changed while it was measured")

const (
	// measureBatch is the number of documents read at a time for measuring. It is small so that measuring stops soon
	// when readers wait.
	measureBatch = 256
	// maxKeptLengths bounds the kept lengths of sources that repeat, in documents of all sources.
	maxKeptLengths = 1 << 19
	// measureRetry is the pause after a failed read of documents.
	measureRetry = time.Second
	// measurePause is how long measuring pauses each time a reader waits.
	measurePause = 100 * time.Millisecond
)

// measurement plans a copy of the run to its end, from the lengths of the documents only. The leader does this
// concurrently with the run. At any time it has at most one request, for measureBatch documents. It is throttled
// while ranks read, and pauses while a rank waits for a step.
type measurement struct {
	e        *Estimator
	throttle throttle
	PlannerCopy
	applier      *planner.Applier
	readers      map[int]*lengthReader
	keptArrivals map[int][]plan.Arrival // by source, of documents that repeat
	keptRoom     int
	length       state.Length
}

// measureSteps counts the steps of a run that has no open source. known is the current estimate.
func (f *forecast) measureSteps(ctx context.Context, c PlannerCopy, known state.Length) (steps uint64, err error) {
	m := measurement{e: f.e, throttle: f.throttle, PlannerCopy: c, readers: map[int]*lengthReader{},
		keptArrivals: map[int][]plan.Arrival{},
		keptRoom:     maxKeptLengths, length: known}
	if m.applier, err = f.e.newApplier(ctx, c); err != nil {
		return 0, err
	}
	for n := 1; ; n++ {
		if n%measureBatch == 0 { // kept documents are not read
			if err := m.pauseForReaders(ctx); err != nil {
				return 0, err
			}
		}
		if err := m.applier.ApplyPending(func(planner.Ready) error { return nil }); err != nil {
			return 0, err
		}
		if m.applier.Ended {
			break
		}
		source, sequence, ok := m.applier.Planner.NextDocument()
		if !ok {
			return 0, errors.New("sources have documents left, and none of them a weight: the run does not end")
		}
		a, err := m.nextArrival(ctx, source, sequence)
		if err != nil {
			return 0, err
		}
		if _, err := m.applier.AddDocument(a); err != nil {
			return 0, err
		}
	}
	return m.applier.Planner.Next(), nil
}

// nextArrival returns the planner's input for the next document.
func (m *measurement) nextArrival(ctx context.Context, source int, sequence uint64) (plan.Arrival, error) {
	place := m.applier.Planner.Mixture().Position(source)
	x := m.readers[source]
	if x == nil || x.epoch != place.Epoch {
		var err error
		if x, err = m.openReader(ctx, source, place.Epoch, place.Taken); err != nil {
			return plan.Arrival{}, err
		}
		m.readers[source] = x
	}
	a, err := x.nextArrival(ctx, sequence)
	a.Source = source
	return a, err
}

// openReader starts to read an epoch of a source.
func (m *measurement) openReader(ctx context.Context, source int, epoch, taken uint64) (*lengthReader, error) {
	streams, err := m.e.streams.RunStreams(ctx, m.e.run.Header())
	if err != nil {
		return nil, err
	}
	mix := m.applier.Planner.Mixture()
	x := &lengthReader{docs: streams[source].Documents, epoch: epoch, nextIndex: taken, unit: m.e.config.Mix.Share,
		pauseForReaders: m.pauseForReaders}
	x.epochOrder = mix.EpochOrder(source, epoch)
	if m.keptArrivals[source] == nil && !m.usesHints(source) &&
		m.applier.Planner.Filters.Selection(source).Filters.IsEmpty() &&
		mix.SourceConfig(source).Epochs.HasEpochAfter(epoch+1) &&
		x.epochOrder.Len() <= uint64(m.keptRoom) {
		m.keptRoom -= int(x.epochOrder.Len())
		m.keptArrivals[source] = make([]plan.Arrival, x.epochOrder.Len())
	}
	x.keptArrivals = m.keptArrivals[source]
	return x, nil
}

// usesHints reports whether the planner uses packing hints of a source's documents. Like inputs of filters, they are
// too large to keep.
func (m *measurement) usesHints(source int) bool {
	return m.e.run.Header().Config.SourcePacking(
		m.applier.Planner.Mixture().SourceConfig(source)).SimilarityConfig() != nil
}

// pauseForReaders returns errRunChanged if the measurement is obsolete, and throttles it while ranks read.
func (m *measurement) pauseForReaders(ctx context.Context) error {
	if m.e.Controls() != m.Controls {
		return errRunChanged
	}
	if m.length.Steps > 0 {
		m.length.MeasuredFraction = min(float64(m.applier.Planner.Next())/float64(m.length.Steps), 0.999)
		m.e.setLength(m.length, m.Controls)
	}
	if m.e.run.HasWaitingReader() {
		if err := waiting.Sleep(ctx, measurePause); err != nil {
			return err
		}
		m.throttle.startWork()
	}
	return m.throttle.sleep(ctx)
}

// lengthReader reads the planner's input for the documents of a source, in the order of an epoch. It keeps no tokens.
type lengthReader struct {
	docs            document.Documents
	epochOrder      *mixture.EpochOrder
	epoch           uint64
	nextIndex       uint64 // place of the next document to read
	groupOrder      []uint64
	arrivals        map[uint64]plan.Arrival
	keptArrivals    []plan.Arrival // documents already read, by distance from the first; nil if none are kept
	unit            mixture.ShareUnit
	pauseForReaders func(context.Context) error
}

// nextArrival returns the next document, which must have that sequence.
func (x *lengthReader) nextArrival(ctx context.Context, sequence uint64) (plan.Arrival, error) {
	if len(x.groupOrder) == 0 {
		order, first := x.epochOrder.Group(x.nextIndex)
		x.groupOrder = slices.Clone(order[first:])
		x.nextIndex += uint64(len(x.groupOrder))
		if err := x.readGroup(ctx); err != nil {
			return plan.Arrival{}, err
		}
	}
	if x.groupOrder[0] != sequence {
		return plan.Arrival{}, fmt.Errorf("document %d arrived where %d was expected", x.groupOrder[0], sequence)
	}
	x.groupOrder = x.groupOrder[1:]
	return x.arrivals[sequence], nil
}

// readGroup reads the documents of a group.
func (x *lengthReader) readGroup(ctx context.Context) error {
	x.arrivals = make(map[uint64]plan.Arrival, len(x.groupOrder))
	var wanted []uint64
	for _, sequence := range x.groupOrder {
		if x.keptArrivals != nil && x.keptArrivals[sequence-x.epochOrder.First].Sequence > 0 {
			x.arrivals[sequence] = x.keptArrivals[sequence-x.epochOrder.First]
			continue
		}
		wanted = append(wanted, sequence)
	}
	slices.Sort(wanted)
	for len(wanted) > 0 {
		n := min(measureBatch, len(wanted))
		if err := x.readDocuments(ctx, wanted[:n]); err != nil {
			return err
		}
		if err := x.pauseForReaders(ctx); err != nil {
			return err
		}
		wanted = wanted[n:]
	}
	return nil
}

// readDocuments reads documents, and retries those that could not be read.
func (x *lengthReader) readDocuments(ctx context.Context, sequences []uint64) error {
	var mu sync.Mutex
	for {
		err := x.docs.Refetch(ctx, sequences, func(d document.Document) {
			mu.Lock()
			defer mu.Unlock()
			a := d.Arrival().WithoutUnusedLoss(x.unit)
			x.arrivals[d.Sequence] = a
			if x.keptArrivals != nil {
				x.keptArrivals[d.Sequence-x.epochOrder.First] = a.LengthsOnly(x.unit)
			}
		})
		sequences = slices.DeleteFunc(slices.Clone(sequences), func(s uint64) bool { return x.arrivals[s].Sequence > 0 })
		if len(sequences) == 0 {
			return nil
		}
		if err == nil {
			if _, err := x.docs.Content(ctx, sequences[0]); err != nil {
				return fmt.Errorf("read document %d: %w", sequences[0], err)
			}
		}
		if err := waiting.Sleep(ctx, measureRetry); err != nil {
			return err
		}
		if err := x.pauseForReaders(ctx); err != nil {
			return err
		}
	}
}
