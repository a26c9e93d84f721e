package retention

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"loaderd/stream"
)

// ReadingRun is a run that reads the document stream.
type ReadingRun struct {
	Run string
	// Sealed is set if the run reads no document after sequence End.
	Sealed bool
	End    uint64
}

// listTimeout bounds the time of Runs, Readers and Intakes.
const listTimeout = 5 * time.Second

// Runs returns the runs that read the document stream, in the order of their names, by their low watermarks. It does
// not return the end of a run that a daemon sealed without recording that. It changes nothing.
func Runs(ctx context.Context, s *stream.Store) ([]ReadingRun, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	documents, err := s.JetStream().Stream(ctx, s.Config().Name)
	if err != nil {
		return nil, fmt.Errorf("ask which runs read stream %s: %w", s.Config().Name, err)
	}
	all, err := findReaders(ctx, s.Own(), valueKey(documents.CachedInfo()))
	if err != nil {
		return nil, fmt.Errorf("ask which runs read stream %s: %w", s.Config().Name, err)
	}
	return all.sortedRuns(), nil
}

// sortedRuns returns the runs in the order of their names.
func (r readers) sortedRuns() []ReadingRun {
	var all []ReadingRun
	for _, run := range slices.Sorted(maps.Keys(r.Runs)) {
		all = append(all, ReadingRun{Run: run, Sealed: r.Runs[run].Sealed, End: r.Runs[run].End})
	}
	return all
}
