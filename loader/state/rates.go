package state

// Rates are the rates of a run per second, over the last ten seconds. For slower steps they are those of the last
// step, until the next one is overdue.
type Rates struct {
	Published   float64 `json:"published_documents"` // into the streams of the run
	Documents   float64 `json:"documents"`           // planned
	TokensIn    float64 `json:"tokens_in"`           // of the planned documents
	Tokens      float64 `json:"tokens"`              // in steps, without padding
	Rows        float64 `json:"rows"`                // in steps
	Steps       float64 `json:"steps"`               // planned
	StepsRead   float64 `json:"steps_read"`          // consumed by the slowest rank
	Undecodable float64 `json:"undecodable_documents"`
}
