package state

// Length is the total number of steps of a run.
type Length struct {
	// Steps is the total number, including planned steps. While Open is not empty, it is the number if all sources ended
	// after their last stored documents. It is 0 if the run has no end.
	Steps uint64 `json:"steps"`
	// Error is the error bound of Steps: the true error exceeds it in one of twenty cases. It is 0 if Exact.
	Error uint64 `json:"error"`
	// Exact reports that Steps is no estimate: the plan has ended, or was measured to its end. Only a requested control
	// can still change it.
	Exact bool `json:"exact"`
	// Endless reports that a source is read forever. Idle reports that sources have documents left but none of them ever
	// gets a weight.
	Endless bool `json:"endless,omitempty"`
	Idle    bool `json:"idle,omitempty"`
	// OpenSources names the sources that are not sealed.
	OpenSources []string `json:"open,omitempty"`
	// MeasuredFraction is the part of the steps that a running measurement has covered, from 0 to 1.
	MeasuredFraction float64 `json:"measured,omitempty"`
}
