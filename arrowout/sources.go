package arrowout

import (
	"context"
	"fmt"

	"loaderd/loader"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// sources are those of a run with several, as far as a stream of steps has met them. A run with one document stream has none.
type sources struct {
	run    Unjoined
	config plan.Config
	mixed  bool              // by config: that is too large to be asked for every piece
	known  []plan.SourceInfo // by number
}

func sourcesOf(run Unjoined, info loader.Info) *sources {
	return &sources{run: run, config: info.Config, mixed: info.Config.Mixed(), known: info.Sources}
}

// meet makes sure that the sources of a step are known: some may have come to the run after it was described.
func (s *sources) meet(ctx context.Context, step *plan.Step) error {
	if !step.Mixed {
		return nil
	}
	newest := uint64(0)
	for _, row := range step.Rows {
		for _, p := range row {
			newest = max(newest, p.Doc)
		}
	}
	source := plan.RefSource(newest)
	if source >= len(s.known) {
		s.known = s.run.Info().Sources
	}
	if source >= len(s.known) { // this daemon has not followed the plan as far: to describe a document it does
		_, _ = s.run.Describe(ctx, newest)
		s.known = s.run.Info().Sources
	}
	if source < len(s.known) {
		return nil
	}
	return &loader.Error{Reason: loader.PlanMismatch, Message: fmt.Sprintf("step %d names source %d, and the plan has %d", step.Index, source, len(s.known)),
		Do: "check the plan: loaderd audit"}
}

// whole reports whether a row is one attention segment, and not one for each piece: that is for its source to say where it has a packing of its own.
func (s *sources) whole(row []packonline.Piece) bool {
	attention := s.config.Attention
	if s.mixed && len(row) > 0 {
		attention = s.config.AttentionIn(s.known[plan.RefSource(row[0].Doc)].Config)
	}
	return attention == plan.AttentionRow
}

// sequence returns that of a document in its stream.
func (s *sources) sequence(document uint64) uint64 {
	if s.mixed {
		return plan.RefSequence(document)
	}
	return document
}

// name returns the name of a document's source, which is known; none in a run with one document stream.
func (s *sources) name(document uint64) string {
	if s.mixed {
		return s.known[plan.RefSource(document)].Name
	}
	return ""
}

// bytesOfSource is more than a SourceCount takes with its name.
const bytesOfSource = 160

// named bounds how many sources the metadata of a part names.
func (p part) named(s *plan.Step) int {
	if !s.Mixed {
		return 0
	}
	pieces := 0
	for _, row := range s.Rows[p.first : p.first+p.rows] {
		pieces += len(row)
	}
	return min(pieces, mixture.MaxSources)
}
