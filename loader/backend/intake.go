package backend

import "loaderd/loader/plan"

// Intake is what a run reports to producers of one of its document streams: what it accepts, how far it has read, and
// what it skipped.
type Intake struct {
	Tokenizer   string     `json:"tokenizer"`   // tokenizer name
	Fingerprint string     `json:"fingerprint"` // required fingerprint of token ids
	Text        bool       `json:"text"`        // whether it accepts texts
	Read        uint64     `json:"read"`        // last document that is planned
	Full        bool       `json:"full"`        // it reads no further until ranks request steps, or at all
	Filling     bool       `json:"filling"`     // an early flush is possible: its shuffle window is not full
	Documents   int64      `json:"documents"`   // planned, used or not
	Skipped     plan.Skips `json:"skipped"`     // number of these, by reason
}
