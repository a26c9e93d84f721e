package api

// Metadata is sent with every record batch as JSON in app_metadata. Counts are of this batch, so that the counts of a
// step's parts and ranks add up to the step's. Fields whose names begin with step count the whole step.
type Metadata struct {
	Run        string `json:"run"`
	Step       uint64 `json:"step"`
	Part       int    `json:"part"`        // 0 ... Parts-1
	Parts      int    `json:"parts"`       // number of record batches that make this rank's part of the step
	Bucket     int    `json:"bucket"`      // length of every row in tokens
	Rows       int    `json:"rows"`        // rows of this batch
	Tokens     int64  `json:"tokens"`      // slots that are not padding
	LossTokens int64  `json:"loss_tokens"` // slots whose label is not -100
	Documents  int    `json:"documents"`   // pieces; a document cut in two counts twice
	MaxSeqlen  int    `json:"max_seqlen"`  // longest attention segment in tokens, without padding

	// StepTokens - StepSegments is the divisor of a loss that excludes every segment's first token, if every token has
	// a loss. It needs no communication between ranks.
	StepRows     int   `json:"step_rows"`     // rows of the whole step, on all ranks
	StepTokens   int64 `json:"step_tokens"`   // tokens of the whole step, on all ranks, without padding
	StepSegments int64 `json:"step_segments"` // attention segments of the whole step, on all ranks
	// If not every token has a loss, the divisor is StepLossTokens - StepLossSegments.
	StepLossTokens   int64 `json:"step_loss_tokens"`   // tokens of the whole step with a loss
	StepLossSegments int64 `json:"step_loss_segments"` // segments of the whole step whose first token has a loss

	// Weighted reports whether a piece of this batch has a loss weight other than 1. The column loss_weights contains
	// them.
	Weighted bool `json:"weighted,omitempty"`

	// StepSources is the number of sources to which the step's numbers may refer: the initial sources, plus those added
	// later.
	StepSources int                    `json:"step_sources"`
	Sources     map[string]SourceCount `json:"sources"` // counts of this batch per source, by name
}

// SourceCount is the part of a batch that belongs to one source.
type SourceCount struct {
	Tokens     int64 `json:"tokens"`
	LossTokens int64 `json:"loss_tokens"` // of those with a label other than -100
}
