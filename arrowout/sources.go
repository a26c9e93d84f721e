package arrowout

import (
	"context"
	"fmt"

	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// sources are the sources of a run, as far as a stream of steps has met them.
type sources struct {
	config plan.Config
	known  []plan.SourceInfo // by number
	renew  func(ctx context.Context, document uint64) []plan.SourceInfo
}

// newSources returns the sources of a run. renew returns the sources as of now, with that of a document.
func newSources(c plan.Config, known []plan.SourceInfo, renew func(ctx context.Context, document uint64) []plan.SourceInfo) *sources {
	return &sources{config: c, known: known, renew: renew}
}

// meet makes sure that the sources of a step are known: some may have come to the run after it was described.
func (s *sources) meet(ctx context.Context, step *plan.Step) error {
	newest := uint64(0)
	for _, row := range step.Rows {
		for _, p := range row {
			newest = max(newest, p.Doc)
		}
	}
	source := plan.RefSource(newest)
	if source >= len(s.known) {
		s.known = s.renew(ctx, newest)
	}
	if source < len(s.known) {
		return nil
	}
	return &fault.Error{Reason: fault.PlanMismatch, Message: fmt.Sprintf("step %d names source %d, and the plan has %d", step.Index, source, len(s.known)),
		Do: "check the plan: loaderd audit"}
}

// whole reports whether a row is one attention segment, and not one for each piece: that is for its source to say where it has a packing of its own.
func (s *sources) whole(row []packonline.Piece) bool {
	attention := s.config.Attention
	if len(row) > 0 {
		attention = s.config.AttentionIn(s.known[plan.RefSource(row[0].Doc)].Config)
	}
	return attention == plan.AttentionRow
}

// name returns the name of a document's source, which is known.
func (s *sources) name(document uint64) string { return s.known[plan.RefSource(document)].Name }

// bytesOfSource is more than a SourceCount takes with its name.
const bytesOfSource = 160

// named bounds how many sources the metadata of a part names.
func (p part) named(s *plan.Step) int {
	pieces := 0
	for _, row := range s.Rows[p.first : p.first+p.rows] {
		pieces += len(row)
	}
	return min(pieces, mixture.MaxSources)
}
