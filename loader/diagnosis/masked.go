package diagnosis

import (
	"fmt"

	"loaderd/internal/humanize"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// describeMasked returns that no token of the documents of a source has a loss, and what that means for its share. It
// returns an empty text if a document was used, or was skipped for another reason.
func describeMasked(p *state.PlanStats, source *state.SourceStats) string {
	if source == nil || source.Arrived == 0 || source.Skipped.Count(plan.SkipMasked) != source.Arrived {
		return ""
	}
	documents := humanize.Things(int(source.Arrived), "document")
	if len(p.Sources) == 1 {
		return fmt.Sprintf("no token of the %s has a loss, so they fill no step", documents)
	}
	unit := "tokens"
	if source.Unit.CountsLoss() {
		unit = "tokens with a loss"
	}
	return fmt.Sprintf("no token of the %s of source %q has a loss, so its share of the %s cannot be filled", documents,
		source.Name, unit)
}

// maskedAdvice is the advice when no token of the documents of a source has a loss.
func maskedAdvice(p *state.PlanStats, source *state.SourceStats) string {
	end := "the run with loaderd seal"
	if len(p.Sources) > 1 {
		end = "this source with loaderd seal " + source.Name
	}
	return fmt.Sprintf("publish documents with a loss (%s), or end %s", plan.SkipMasked.Do(), end)
}
