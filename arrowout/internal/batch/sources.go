package batch

import (
	"context"
	"fmt"

	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// Sources are the sources of a run, as known to one stream of steps.
type Sources struct {
	Config  runconfig.Config
	known   []plan.SourceInfo // by number
	refresh func(ctx context.Context, document uint64) []plan.SourceInfo
}

// NewSources returns the sources of a run. renew returns the present sources, including that of a document.
func NewSources(c runconfig.Config, known []plan.SourceInfo,
	renew func(ctx context.Context, document uint64) []plan.SourceInfo) *Sources {
	return &Sources{Config: c, known: known, refresh: renew}
}

// EnsureKnown ensures that the sources of a step are known. Some may have been added to the run after it was described.
func (s *Sources) EnsureKnown(ctx context.Context, step *plan.Step) error {
	newest := uint64(0)
	for _, row := range step.Rows {
		for _, p := range row {
			newest = max(newest, p.Doc)
		}
	}
	source := plan.RefSource(newest)
	if source >= len(s.known) {
		s.known = s.refresh(ctx, newest)
	}
	if source < len(s.known) {
		return nil
	}
	return &fault.Error{Reason: fault.PlanMismatch,
		Message: fmt.Sprintf("step %d refers to source %d, and the plan has %d",
			step.Index, source, len(s.known)),
		Advice: "check the plan: loaderd run audit"}
}

// isOneSegment reports whether a row is one attention segment, instead of one segment per piece. If its source has its
// own packing, the source's configuration decides.
func (s *Sources) isOneSegment(row []packonline.Piece) bool {
	attention := s.Config.Attention
	if len(row) > 0 {
		attention = s.Config.SourceAttention(s.known[plan.RefSource(row[0].Doc)].Config)
	}
	return attention == runconfig.AttentionRow
}

// Name returns the name of a document's source, which must be known.
func (s *Sources) Name(document uint64) string { return s.known[plan.RefSource(document)].Name }

// sourceCountBytes bounds the size of a SourceCount with its name.
const sourceCountBytes = 160

// maxSources bounds how many sources the metadata of a part names.
func (p Part) maxSources(s *plan.Step) int {
	pieces := 0
	for _, row := range s.Rows[p.First : p.First+p.Rows] {
		pieces += len(row)
	}
	return min(pieces, mixture.MaxSources)
}
