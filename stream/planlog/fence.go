package planlog

import (
	"fmt"
	"time"

	"loaderd/loader"
)

// fence orders those who have led a run: by when its plan was made, then by their term. What someone with a lower fence asks for is refused.
type fence struct {
	Plan int64  `json:"plan"` // when the plan's stream was made, in nanoseconds since 1970
	Term uint64 `json:"term"` // 0 before the plan has its first record
}

// before reports whether f is lower than g.
func (f fence) before(g fence) bool {
	return f.Plan < g.Plan || f.Plan == g.Plan && f.Term < g.Term
}

// passes refuses a fence that is lower than one that was there before: a term or a plan that follows.
func (f fence) passes(there fence) error {
	switch {
	case f.Plan < there.Plan:
		return fmt.Errorf("%w: its plan was made again at %s", loader.ErrDeposed, time.Unix(0, there.Plan).UTC().Format(time.RFC3339))
	case f.before(there):
		return fmt.Errorf("%w: term %d follows term %d", loader.ErrDeposed, there.Term, f.Term)
	}
	return nil
}

// fence is that of a term of this plan.
func (l *Log) fence(term uint64) fence { return fence{l.created.UnixNano(), term} }
