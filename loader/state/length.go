package state

// Length is how many steps a run has from its first to its last one.
type Length struct {
	// Steps are all that the run has, planned ones among them. While Open names something they are those that it would
	// have if everything ended behind the documents that are stored now. 0 when the run has no end.
	Steps uint64 `json:"steps"`
	// Error is how far Steps may be off: by more in one of twenty cases. 0 when Exact.
	Error uint64 `json:"error"`
	// Exact says that Steps is no estimate: the plan has ended, or was measured to its end. Only a control that somebody
	// asks for still changes it.
	Exact bool `json:"exact"`
	// Endless says that a source is read for ever, Idle that sources have documents left and none of them ever gets a
	// weight.
	Endless bool `json:"endless,omitempty"`
	Idle    bool `json:"idle,omitempty"`
	// Open names the sources that are not sealed.
	Open []string `json:"open,omitempty"`
	// Measured is the part of the steps that a measuring which is under way has come to, from 0 to 1.
	Measured float64 `json:"measured,omitempty"`
}
