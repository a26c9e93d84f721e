package casvalue

import (
	"fmt"
	"time"

	"loaderd/loader/fault"
)

// Fence orders the leaders of a run by the creation time of the plan, then by term. A request with a lower fence than
// the stored one is refused.
type Fence struct {
	Plan int64  `json:"plan"` // when the plan's stream was created, in nanoseconds since 1970
	Term uint64 `json:"term"` // 0 before the plan has its first record
}

// Before reports whether f is lower than g.
func (f Fence) Before(g Fence) bool {
	return f.Plan < g.Plan || f.Plan == g.Plan && f.Term < g.Term
}

// Check returns fault.ErrLeadershipLost if the stored fence is higher, because a later term or a later plan has
// begun.
func (f Fence) Check(stored Fence) error {
	switch {
	case f.Plan < stored.Plan:
		return fmt.Errorf("%w: its plan was made again at %s", fault.ErrLeadershipLost,
			time.Unix(0, stored.Plan).UTC().Format(time.RFC3339))
	case f.Before(stored):
		return fmt.Errorf("%w: term %d follows term %d", fault.ErrLeadershipLost, stored.Term, f.Term)
	}
	return nil
}
