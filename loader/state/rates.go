package state

// Rates are the speed of a run, per second, in the last ten seconds. Of slower steps they are those of the last step,
// until the next one is overdue.
type Rates struct {
	Published   float64 `json:"published_documents"` // into the streams of the run
	Documents   float64 `json:"documents"`           // planned
	TokensIn    float64 `json:"tokens_in"`           // of these
	Tokens      float64 `json:"tokens"`              // in steps, padding left out
	Rows        float64 `json:"rows"`                // in steps
	Steps       float64 `json:"steps"`               // planned
	Read        float64 `json:"steps_read"`          // consumed by the rank that is furthest behind
	Undecodable float64 `json:"undecodable_documents"`
}
