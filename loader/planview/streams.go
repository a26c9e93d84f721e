package planview

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
)

// Streams holds the document streams of a run by source number. Documents are identified by plan.Ref.
type Streams struct {
	sources backend.Sources
	view    *View // provides the sources as far as it was followed; nil if the header's are all

	mu              sync.Mutex
	opened          map[string]backend.Stream
	restoredSources []plan.SourceInfo // sources of a restored planner

	stored atomic.Bool // whether a stream has documents on the local disk
}

// NewStreams returns the streams from which the steps of view are assembled.
func NewStreams(e backend.Backends, view *View) *Streams {
	return &Streams{sources: e.Sources, view: view, opened: map[string]backend.Stream{}}
}

// SourceInfos returns the sources of the run.
func (s *Streams) SourceInfos() []plan.SourceInfo {
	var followed []plan.SourceInfo
	if s.view != nil {
		followed = s.view.sourceInfos()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.restoredSources) > len(followed) {
		return s.restoredSources
	}
	return followed
}

// AddSources adds the sources of a planner.
func (s *Streams) AddSources(infos []plan.SourceInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(infos) > len(s.restoredSources) {
		s.restoredSources = infos
	}
}

// SourceStream returns the stream of a source.
func (s *Streams) SourceStream(ctx context.Context, name string, c mixture.Source) (backend.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x, ok := s.opened[name]; ok {
		return x, nil
	}
	x, err := s.sources.Open(ctx, name, c)
	if err != nil {
		return x, fmt.Errorf("open source %s: %w", name, err)
	}
	s.opened[name] = x
	if x.Stored != nil {
		s.stored.Store(true)
	}
	return x, nil
}

// RunStream is a stream of the run. It is needed from Start on.
type RunStream struct {
	backend.Stream
	plan.SourceBegin
	firstDocument uint64 // first document of the run, or of the run that it is a fork of
}

// RunStreams returns the streams of the run by source number. h is the header of its plan.
func (s *Streams) RunStreams(ctx context.Context, h planrecord.Header) ([]RunStream, error) {
	infos := s.SourceInfos()
	if len(infos) == 0 {
		infos = h.Infos()
	}
	out := make([]RunStream, len(infos))
	for i, x := range infos {
		stream, err := s.SourceStream(ctx, x.Name, x.Config)
		if err != nil {
			return nil, err
		}
		out[i] = RunStream{stream, x.SourceBegin, x.Start}
		out[i].Start = x.First()
	}
	return out, nil
}

// CheckStreams returns an error if the plan with header h was not made from these streams. Otherwise it returns the
// first document that each of them holds.
func (s *Streams) CheckStreams(ctx context.Context, h planrecord.Header) (Needs, error) {
	all, err := s.RunStreams(ctx, h)
	if err != nil {
		return nil, err
	}
	first := make(Needs, len(all))
	for i, x := range all {
		state, err := x.Documents.State(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the documents of source %s: %w", x.Name, err)
		}
		if err := CheckStream(h.Run, x.SourceBegin.Stream, state.Stream); err != nil {
			return nil, err
		}
		first[i] = state.First
	}
	return first, nil
}

// streamOf returns the stream of a document, and its sequence there.
func (s *Streams) streamOf(ctx context.Context, ref uint64) (backend.Stream, uint64, error) {
	source := plan.RefSource(ref)
	infos := s.SourceInfos()
	if source >= len(infos) { // a reader is ahead of the records that this process has read
		if err := s.view.Follow(ctx); err != nil {
			return backend.Stream{}, 0, err
		}
		infos = s.SourceInfos()
	}
	if source >= len(infos) {
		return backend.Stream{}, 0, fmt.Errorf("document %d of source %d: the plan names no such source",
			plan.RefSequence(ref), source)
	}
	x, err := s.SourceStream(ctx, infos[source].Name, infos[source].Config)
	return x, plan.RefSequence(ref), err
}

// DocumentName returns a readable name of a document of the plan.
func (s *Streams) DocumentName(ref uint64) string {
	name := fmt.Sprint(plan.RefSource(ref))
	if infos := s.SourceInfos(); plan.RefSource(ref) < len(infos) {
		name = infos[plan.RefSource(ref)].Name
	}
	return fmt.Sprintf("document %d of source %s", plan.RefSequence(ref), name)
}

// Content returns the content of a document by its plan reference.
func (s *Streams) Content(ctx context.Context, ref uint64) (document.Content, error) {
	x, sequence, err := s.streamOf(ctx, ref)
	if err != nil {
		return document.Content{}, err
	}
	return x.Documents.Content(ctx, sequence)
}

// HasStored reports whether documents of a stream that was opened are cached on the local disk.
func (s *Streams) HasStored() bool { return s.stored.Load() }

// Stored returns the content of a document by its plan reference, if a cache on the local disk has it.
func (s *Streams) Stored(ctx context.Context, ref uint64) (document.Content, bool) {
	x, sequence, err := s.streamOf(ctx, ref)
	if err != nil || x.Stored == nil {
		return document.Content{}, false
	}
	return x.Stored(ctx, sequence)
}

// PackingHints returns the documents of a message, by its plan reference, with their packing hints.
func (s *Streams) PackingHints(ctx context.Context, ref uint64) ([]plan.Part, error) {
	x, sequence, err := s.streamOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	return x.Documents.PackingHints(ctx, sequence)
}

// Refetch calls Documents.Again for documents by their plan references, in ascending order. Sequence is then a plan
// reference too.
func (s *Streams) Refetch(ctx context.Context, refs []uint64, f func(document.Document)) error {
	g, ctx := errgroup.WithContext(ctx)
	for len(refs) > 0 {
		source := plan.RefSource(refs[0])
		n, _ := slices.BinarySearch(refs, plan.Ref(source+1, 0))
		x, _, err := s.streamOf(ctx, refs[0])
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		sequences := make([]uint64, n)
		for i, ref := range refs[:n] {
			sequences[i] = plan.RefSequence(ref)
		}
		refs = refs[n:]
		g.Go(func() error {
			return x.Documents.Refetch(ctx, sequences, func(d document.Document) {
				d.Sequence = plan.Ref(source, d.Sequence)
				f(d)
			})
		})
	}
	return g.Wait()
}

// Describe returns the origin of a document by its plan reference.
func (s *Streams) Describe(ctx context.Context, ref uint64) (document.Info, error) {
	x, sequence, err := s.streamOf(ctx, ref)
	if err != nil {
		return document.Info{}, err
	}
	info, err := x.Documents.Describe(ctx, sequence)
	info.Source = s.SourceInfos()[plan.RefSource(ref)].Name
	return info, err
}

// Lookup returns plan references of the messages that have a producer's id or hold a document with that id, in order
// per source.
func (s *Streams) Lookup(ctx context.Context, id string) (refs []uint64, err error) {
	for source, info := range s.SourceInfos() {
		x, err := s.SourceStream(ctx, info.Name, info.Config)
		if err != nil {
			return nil, err
		}
		sequences, err := x.Documents.Lookup(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("source %s: %w", info.Name, err)
		}
		for _, sequence := range sequences {
			refs = append(refs, plan.Ref(source, sequence))
		}
	}
	return refs, nil
}

// SourceBegins returns the first document of each source for a new run, according to the current state of the streams.
func (s *Streams) SourceBegins(ctx context.Context, c runconfig.Config) (out []plan.SourceBegin, err error) {
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		b, err := s.SourceBegin(ctx, name, c.Sources[name])
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// LastArrival returns the arrival of the current last document of a single-source run. It is 0 for several sources,
// whose documents arrive in an order that is not known in advance.
func (s *Streams) LastArrival(ctx context.Context, h planrecord.Header) (uint64, error) {
	all, err := s.RunStreams(ctx, h)
	if err != nil || len(all) > 1 {
		return 0, err
	}
	state, err := all[0].Documents.State(ctx)
	return max(state.Last+1, all[0].firstDocument) - all[0].firstDocument, err
}

// SourceBegin returns the first document of a source for a run that starts now.
func (s *Streams) SourceBegin(ctx context.Context, name string, c mixture.Source) (plan.SourceBegin, error) {
	x, err := s.SourceStream(ctx, name, c)
	if err != nil {
		return plan.SourceBegin{}, err
	}
	state, err := x.Documents.State(ctx)
	if err != nil {
		return plan.SourceBegin{}, fmt.Errorf("source %s: %w", name, err)
	}
	b := plan.SourceBegin{Name: name, Stream: state.Stream, Sealed: state.Sealed}
	if state.Sealed {
		b.Last = state.Last
	}
	if b.Start, err = startSequence(ctx, x.Documents, state, c.Start); err != nil {
		return b, fmt.Errorf("source %s: start: %w", name, err)
	}
	return b, nil
}

// startSequence returns the sequence of a run's first document.
func startSequence(ctx context.Context, docs document.Documents, state document.StreamState,
	start string) (uint64, error) {
	sequence, from, err := mixture.ParseStart(start)
	switch {
	case err != nil:
		return 0, err
	case start == mixture.StartNew:
		return state.Last + 1, nil
	case sequence > state.Last+1:
		return 0, fmt.Errorf("document %d is not there yet: the last one is %d", sequence, state.Last)
	case sequence > 0 && sequence < state.First:
		return 0, fmt.Errorf("document %d no longer exists: the first one is %d", sequence, state.First)
	case sequence > 0:
		return sequence, nil
	case from.IsZero():
		return state.First, nil
	}
	n := sort.Search(int(state.Last+1-state.First), func(i int) bool {
		info, failed := docs.Describe(ctx, state.First+uint64(i))
		if failed != nil {
			err = failed
		}
		return !info.Time.Before(from)
	})
	return state.First + uint64(n), err
}

// ViewDocument returns a document by its plan reference, whether or not the plan uses it.
func (s *Streams) ViewDocument(ctx context.Context, ref uint64) (document.View, error) {
	x, sequence, err := s.streamOf(ctx, ref)
	if err != nil {
		return document.View{}, err
	}
	shown, err := x.Documents.ViewDocument(ctx, sequence)
	if err != nil {
		return shown, err
	}
	source := s.SourceInfos()[plan.RefSource(ref)]
	shown.Info.Source = source.Name
	if shown.Skip == "" && len(shown.Parts) == 0 && !source.Config.Split.Includes(shown.ID, sequence) {
		shown.Skip = plan.SkipSplit
	}
	return shown, nil
}
