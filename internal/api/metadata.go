package api

// Metadata travels with every record batch as JSON in app_metadata. Counts are of this batch alone, so that those of a
// step's parts and ranks add up to the step's; those of the whole step say so in their names.
type Metadata struct {
	Run        string `json:"run"`
	Step       uint64 `json:"step"`
	Part       int    `json:"part"`        // 0 ... Parts-1
	Parts      int    `json:"parts"`       // record batches that make this rank's part of the step
	Bucket     int    `json:"bucket"`      // length of every row in tokens
	Rows       int    `json:"rows"`        // rows of this batch
	Tokens     int64  `json:"tokens"`      // slots that are not padding
	LossTokens int64  `json:"loss_tokens"` // slots whose label is not -100
	Documents  int    `json:"documents"`   // pieces; a document cut in two counts twice
	MaxSeqlen  int    `json:"max_seqlen"`  // longest attention segment in tokens, padding left out

	// What a loss that leaves out every segment's first token is divided by, StepTokens - StepSegments, without asking the
	// other ranks, where every token has a loss.
	StepTokens   int64 `json:"step_tokens"`   // tokens of the whole step, on all ranks, without padding
	StepSegments int64 `json:"step_segments"` // attention segments of the whole step, on all ranks
	// The same where not every token has a loss: such a loss is divided by StepLossTokens - StepLossSegments.
	StepLossTokens   int64 `json:"step_loss_tokens"`   // tokens of the whole step with a loss
	StepLossSegments int64 `json:"step_loss_segments"` // segments of the whole step whose first token has a loss

	// Weighted says that the loss of a piece of this batch has another weight than 1: the column loss_weights tells.
	Weighted bool `json:"weighted,omitempty"`

	// StepSources is how many sources the step's numbers may be of: those that the run began with, and more where one of
	// them came later.
	StepSources int                    `json:"step_sources"`
	Sources     map[string]SourceCount `json:"sources"` // what this batch has of each, by name
}

// SourceCount is what a batch has of one source.
type SourceCount struct {
	Tokens     int64 `json:"tokens"`
	LossTokens int64 `json:"loss_tokens"` // of those whose label is not -100
}
