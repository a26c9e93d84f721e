package loader

import (
	"fmt"

	"loaderd/packonline"
	"loaderd/shuffle"
)

// Config is everything that shapes a plan and the rows made from it. Two runs with equal Config over equal document logs are
// byte-identical. Its fingerprint is stored in the first record of the plan.
type Config struct {
	// Seed keys every random draw of the run.
	Seed      uint64            `koanf:"seed" json:"seed"`
	Tokenizer Tokenizer         `koanf:"-" json:"tokenizer"`
	Documents DocumentsConfig   `koanf:"documents" json:"documents"`
	Packing   packonline.Config `koanf:"packing" json:"packing"`
	Shuffle   shuffle.Config    `koanf:"shuffle" json:"shuffle"`
	Steps     StepsConfig       `koanf:"steps" json:"steps"`
	// Attention is document (each piece its own attention segment, positions restart) or row (one segment a row).
	Attention string `koanf:"attention" json:"attention"`
}

// Tokenizer is what the plan must know of the tokenizer.
type Tokenizer struct {
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"` // of everything that shapes ids
	// SpecialAsText says that special tokens spelled out in a text are text. The fingerprint covers it; it stands here by name.
	SpecialAsText bool  `json:"special_as_text"`
	VocabSize     int   `json:"vocab_size"` // ids are 0 ... VocabSize-1
	End           int32 `json:"end"`        // end-of-document token appended to every document, -1 for none
	Pad           int32 `json:"pad"`        // id that fills padding
}

// DocumentsConfig says which documents count.
type DocumentsConfig struct {
	// Dedupe drops a document whose producer id was seen among the last this many documents. 0 keeps all.
	Dedupe int `koanf:"dedupe" json:"dedupe"`
}

// StepsConfig shapes steps.
type StepsConfig struct {
	// Rows is the number of rows of a step over all ranks.
	Rows int `koanf:"rows" json:"rows"`
	// Last says what happens to the rows that do not fill a step when the stream is sealed: pad (rows of padding are added) or drop.
	Last string `koanf:"last" json:"last"`
}

// Values of Config.Attention and StepsConfig.Last.
const (
	AttentionDocument = "document"
	AttentionRow      = "row"
	LastPad           = "pad"
	LastDrop          = "drop"
)

// FieldError is a bad field of a configuration: Field is its path below the configuration it belongs to.
type FieldError = packonline.FieldError

// Validate returns every bad field, with its path below Config.
func (c Config) Validate() []FieldError {
	var bad []FieldError
	add := func(field string, value any, want string) {
		bad = append(bad, FieldError{Field: field, Value: value, Want: want})
	}
	for _, e := range c.Packing.Validate() {
		add("packing."+e.Field, e.Value, e.Want)
	}
	for _, e := range c.Shuffle.Validate() {
		add("shuffle."+e.Field, e.Value, e.Want)
	}
	if c.Documents.Dedupe < 0 || c.Documents.Dedupe > 1<<26 {
		add("documents.dedupe", c.Documents.Dedupe, "0 (keep all) to 2^26 documents")
	}
	if c.Steps.Rows < 1 || c.Steps.Rows > 1<<20 {
		add("steps.rows", c.Steps.Rows, "1 to 2^20 rows")
	}
	if c.Steps.Last != LastPad && c.Steps.Last != LastDrop {
		add("steps.last", c.Steps.Last, fmt.Sprintf("%s or %s", LastPad, LastDrop))
	}
	if c.Attention != AttentionDocument && c.Attention != AttentionRow {
		add("attention", c.Attention, fmt.Sprintf("%s or %s", AttentionDocument, AttentionRow))
	}
	return bad
}
