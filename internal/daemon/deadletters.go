package daemon

import (
	"loaderd/arrowout/answers"
)

// deadStatus says what the streams of dead letters hold, and what waits to be stored there.
func (d *Daemon) deadStatus() answers.DeadStatus {
	s := d.dead.Summary()
	out := answers.DeadStatus{Total: s.Total, Waiting: d.docs.DeadLetters().Waiting, Reasons: make([]answers.DeadReason, len(s.Reasons))}
	for i, r := range s.Reasons {
		out.Reasons[i] = answers.DeadReason{Reason: r.Reason, Letters: r.Letters, Samples: make([]answers.DeadSample, len(r.Samples))}
		for k, x := range r.Samples {
			out.Reasons[i].Samples[k] = answers.DeadSample(x)
		}
	}
	return out
}
