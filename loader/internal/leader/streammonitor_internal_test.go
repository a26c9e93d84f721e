package leader

import (
	"context"
	"errors"
	"testing"

	"loaderd/loader/fault"
	"loaderd/loader/planview"
)

// A daemon that has lost its lease does not report documents as lost: its successor may have purged them. It verifies
// the lease before it reads what the run needs.
func TestStreamMonitor_ReportsNoLostDocumentsWithoutLease(t *testing.T) {
	verified := 0
	m := &streamMonitor{term: &term{verifyLease: func(context.Context) error {
		verified++
		return fault.ErrLeadershipLost
	}}}
	trouble, err := m.checkLostDocuments(t.Context(), 0, planview.RunStream{}, 60)
	if trouble != nil || !errors.Is(err, fault.ErrLeadershipLost) || verified != 1 {
		t.Errorf("lostDocuments = %v, %v after %d verifications of the lease, want no verdict and ErrLeadershipLost",
			trouble, err, verified)
	}
}
