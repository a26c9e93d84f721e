package daemon

import (
	"loaderd/internal/api"
)

// deadStatus returns the state of the dead-letter streams and the number of letters that are not stored yet.
func (d *Daemon) deadStatus() api.DeadStatus {
	s := d.dead.Summary()
	out := api.DeadStatus{Total: s.Total, Waiting: d.docs.DeadLetters().Waiting,
		Reasons: make([]api.DeadReason, len(s.Reasons))}
	for i, r := range s.Reasons {
		out.Reasons[i] = api.DeadReason{Reason: r.Reason, Letters: r.Letters, Samples: make([]api.DeadSample, len(r.Samples))}
		for k, x := range r.Samples {
			out.Reasons[i].Samples[k] = api.DeadSample(x)
		}
	}
	return out
}
