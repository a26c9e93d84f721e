package runconfig

import (
	"fmt"
	"maps"
	"slices"

	"loaderd/loader/filter"
	"loaderd/loader/mixture"
	"loaderd/packonline"
	"loaderd/shuffle"
)

// Config is everything that determines a plan and the rows made from it. Two runs with equal Config over equal
// document streams are byte-identical. Its fingerprint is stored in the first record of the plan.
type Config struct {
	// Seed keys every random draw of the run.
	Seed      uint64            `koanf:"seed" json:"seed"`
	Tokenizer Tokenizer         `koanf:"-" json:"tokenizer"`
	Documents Documents         `koanf:"documents" json:"documents"`
	Packing   packonline.Config `koanf:"packing" json:"packing"`
	Shuffle   shuffle.Config    `koanf:"shuffle" json:"shuffle"`
	Steps     Steps             `koanf:"steps" json:"steps"`
	// Attention is document (each piece is an attention segment, positions restart) or row (one segment per row).
	Attention string `koanf:"attention" json:"attention"`
	// Sources are the initial sources of the run, by name: at least one.
	Sources map[string]mixture.Source `koanf:"sources" json:"sources,omitempty"`
	Mix     mixture.Mix               `koanf:"mix" json:"mix,omitzero"`
}

// SourcePacking returns the packing configuration for the documents of a source: its own, or the run's.
func (c Config) SourcePacking(s mixture.Source) packonline.Config {
	if s.Packing != nil {
		return *s.Packing
	}
	return c.Packing
}

// SourceAttention returns the attention in rows of a source's documents: its own if the source has its own packing,
// else the run's.
func (c Config) SourceAttention(s mixture.Source) string {
	if s.Packing != nil {
		return s.Attention
	}
	return c.Attention
}

// Canonical returns the configuration as stored in a plan: without transformations that are off.
func (c Config) Canonical() Config {
	c.Documents = c.Documents.canonical()
	return c
}

// Mixture returns the configuration of the run's mixture.
func (c Config) Mixture() mixture.Config {
	return mixture.Config{Sources: c.Sources, Mix: c.Mix, Seed: c.Seed}
}

// Tokenizer is the part of the tokenizer's configuration that a plan depends on.
type Tokenizer struct {
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"` // of everything that affects token ids
	// SpecialAsText reports whether special tokens spelled out in a text are treated as text. The fingerprint covers it;
	// the field makes it readable.
	SpecialAsText bool  `json:"special_as_text"`
	VocabSize     int   `json:"vocab_size"` // ids are 0 ... VocabSize-1
	End           int32 `json:"end"`        // end-of-document token appended to every document, -1 for none
	Pad           int32 `json:"pad"`        // id that fills padding
}

// Documents configures which documents are used, and how their tokens are transformed before packing.
type Documents struct {
	// Dedupe drops a document whose producer id was seen among the last this many documents. 0 keeps all.
	Dedupe int `koanf:"dedupe" json:"dedupe"`
	// MultiplePerMessage permits messages with several documents.
	MultiplePerMessage bool `koanf:"multiple_per_message" json:"multiple_per_message,omitempty"`
	// Where is an expression (package filter) that selects the documents that are used; empty for all.
	Where string `koanf:"where" json:"where,omitempty"`
	// BOS is inserted before every document that does not begin with it.
	BOS       Token     `koanf:"bos" json:"bos,omitempty"`
	FIM       FIM       `koanf:"fim" json:"fim,omitzero"`
	MaxTokens MaxTokens `koanf:"max_tokens" json:"max_tokens,omitzero"`
	// Columns are the columns of values per token that documents may have, by name.
	Columns map[string]TokenColumn `koanf:"columns" json:"columns,omitempty"`
	// Meta has the keys of the documents' metadata, each with the type of its values: MetaString, MetaInt64 or
	// MetaFloat64.
	Meta map[string]string `koanf:"meta" json:"meta,omitempty"`
	// Versions are the versions of the transformations that are on, by their names.
	Versions map[string]int `koanf:"-" json:"versions,omitempty"`
}

// CheckFilter returns the error of an expression over the run's documents, with its position.
func (c Documents) CheckFilter(where string) error {
	_, err := filter.Compile(where, c.Meta)
	return err
}

// wantFilter describes a valid expression in place of one with an error.
func wantFilter(err error) string { return "an expression that is true or false: " + err.Error() }

// CanHoldMultiple reports whether a message may be several documents: it may hold several, or its document may be
// split.
func (c Documents) CanHoldMultiple() bool { return c.MultiplePerMessage || c.CanSplit() }

// CanSplit reports whether documents that are too long are split.
func (c Documents) CanSplit() bool { return c.MaxTokens.At > 0 && c.MaxTokens.Do == MaxSplit }

// Steps configures the shape of steps.
type Steps struct {
	// Rows is the number of rows of a step over all ranks, for every bucket. Tokens and Table replace it if they are
	// set.
	Rows int `koanf:"rows" json:"rows"`
	// Tokens is the number of tokens of a step, including padding: a step has Tokens / bucket rows. With 0, Rows
	// applies.
	Tokens int64 `koanf:"tokens" json:"tokens,omitempty"`
	// Table is the number of rows of a step for each bucket, in the order of packing.buckets. If it is empty, Tokens or
	// Rows applies.
	Table []int `koanf:"table" json:"table,omitempty"`
	// Schedule changes the size of steps during the run, in the order of its phases.
	Schedule []Phase `koanf:"schedule" json:"schedule,omitempty"`
	// Backlog is how many full steps are kept queued, so that the bucket of the next one can be drawn. It has no effect
	// with one bucket.
	Backlog int `koanf:"backlog" json:"backlog"`
	// MaxWait is the maximum number of documents that may arrive while a row waits for its step (unit: documents). Then
	// the step is emitted with rows of padding for missing rows. 0 sets no bound.
	MaxWait int `koanf:"max_wait" json:"max_wait"`
	// Balance orders the rows of a step so that every rank has nearly the same attention cost.
	Balance bool `koanf:"balance" json:"balance"`
	// Last is what happens to rows that do not fill a step when the stream is sealed: pad (rows of padding are added) or
	// drop.
	Last string `koanf:"last" json:"last"`
}

// RowsPerBucket returns the rows per step for each bucket.
func (c Steps) RowsPerBucket(buckets []int) []int {
	rows := make([]int, len(buckets))
	for i, length := range buckets {
		switch {
		case len(c.Table) > 0:
			rows[i] = c.Table[min(i, len(c.Table)-1)]
		case c.Tokens > 0:
			rows[i] = int(c.Tokens / int64(max(length, 1)))
		default:
			rows[i] = c.Rows
		}
	}
	return rows
}

// MaxStepTokens returns the number of tokens of the largest step of all phases, including padding.
func (c Config) MaxStepTokens() (most int64) {
	for _, p := range NewSchedule(c).Phases {
		for i, length := range c.buckets(p.Phase) {
			most = max(most, int64(p.StepRows[i])*int64(length))
		}
	}
	return most
}

// Values of Config.Attention and Steps.Last.
const (
	AttentionDocument = "document"
	AttentionRow      = "row"
	// AttentionAuto selects attention by the packing method, see [MethodAttention]; no plan contains it.
	AttentionAuto = "auto"
	LastPad       = "pad"
	LastDrop      = "drop"
)

// MethodAttention returns the attention that a packing method requires. Documents that are packed together because they
// are related attend to one another.
func MethodAttention(method string) string {
	if method == "splice" {
		return AttentionRow
	}
	return AttentionDocument
}

// FieldError is an invalid field of a configuration. Field is its path below the configuration that contains it.
type FieldError = packonline.FieldError

// Validate returns every invalid field, with its path below Config.
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
	bad = append(bad, c.Documents.validate()...)
	bad = append(bad, c.validateSteps()...)
	if c.Attention != AttentionDocument && c.Attention != AttentionRow {
		add("attention", c.Attention, fmt.Sprintf("%s or %s", AttentionDocument, AttentionRow))
	}
	return append(bad, c.validateSources()...)
}

// validateSources is the part of Validate about sources.
func (c Config) validateSources() (bad []FieldError) {
	for _, e := range c.Mixture().Validate() {
		bad = append(bad, FieldError(e))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		s := c.Sources[name]
		for _, e := range c.ValidatePacking(&s) {
			bad = append(bad, FieldError{Field: "sources." + name + "." + e.Field, Value: e.Value, Want: e.Want})
		}
		if err := c.Documents.CheckFilter(s.Where); err != nil {
			bad = append(bad, FieldError{Field: "sources." + name + ".where", Value: s.Where, Want: wantFilter(err)})
		}
	}
	return bad
}

// ValidatePacking returns the fields of a source's own packing that are incompatible with the run's.
func (c Config) ValidatePacking(s *mixture.Source) (bad []FieldError) {
	if s.Packing == nil {
		if s.Attention != "" {
			bad = append(bad, FieldError{Field: "attention", Value: s.Attention,
				Want: "a packing of the source's own: rows that several sources share have the run's attention"})
		}
		return bad
	}
	if s.Attention != AttentionDocument && s.Attention != AttentionRow {
		bad = append(bad, FieldError{Field: "attention", Value: s.Attention, Want: fmt.Sprintf("%s or %s", AttentionDocument,
			AttentionRow)})
	}
	for _, l := range s.Packing.Buckets {
		if !slices.Contains(c.Packing.Buckets, l) {
			bad = append(bad, FieldError{Field: "packing.buckets", Value: s.Packing.Buckets,
				Want: fmt.Sprintf("some of the run's buckets: %v", c.Packing.Buckets)})
			break
		}
	}
	return bad
}

// CheckChange rejects a change that is not possible for a mixture and a schedule of the run now.
func (c Config) CheckChange(m *mixture.Mixture, steps *Schedule, change mixture.Change) error {
	for name, s := range change.Add {
		if bad := c.ValidatePacking(&s); len(bad) > 0 {
			return fmt.Errorf("source %s: %w", name, bad[0])
		}
		if err := steps.CheckSource(c, name, s); err != nil {
			return err
		}
		if err := c.Documents.CheckFilter(s.Where); err != nil {
			return fmt.Errorf("source %s: where: %w", name, err)
		}
	}
	return m.CheckChange(change)
}

const maxStepRows = 1 << 20

// validateSize returns the invalid fields of the size of steps.
func (c Steps) validateSize(buckets []int) []FieldError {
	var bad []FieldError
	add := func(field string, value any, want string) {
		bad = append(bad, FieldError{Field: field, Value: value, Want: want})
	}
	if c.Rows < 1 || c.Rows > maxStepRows {
		add("rows", c.Rows, "1 to 2^20 rows")
	}
	if c.Tokens < 0 {
		add("tokens", c.Tokens, "the tokens of a step, or 0 to count rows")
	}
	if len(c.Table) > 0 && c.Tokens > 0 {
		add("table", c.Table, "steps.tokens or steps.table, not both")
	}
	if len(c.Table) > 0 && len(c.Table) != len(buckets) {
		add("table", c.Table, fmt.Sprintf("the rows of a step for each of the %d buckets", len(buckets)))
	}
	if len(bad) > 0 {
		return bad
	}
	for i, rows := range c.RowsPerBucket(buckets) {
		switch {
		case rows >= 1 && rows <= maxStepRows:
		case len(c.Table) > 0:
			add(fmt.Sprintf("table[%d]", i), rows, "1 to 2^20 rows")
		default:
			add("tokens", c.Tokens, fmt.Sprintf("1 to 2^20 rows of %d tokens", buckets[i]))
		}
	}
	return bad
}

func (c Config) validateSteps() []FieldError {
	s := c.Steps
	bad := s.validateSize(c.Packing.Buckets)
	add := func(field string, value any, want string) {
		bad = append(bad, FieldError{Field: field, Value: value, Want: want})
	}
	if len(bad) == 0 {
		bad = c.ValidateSchedule()
	}
	if s.Backlog < 0 || s.Backlog > 1<<16 {
		add("backlog", s.Backlog, "0 to 2^16 steps")
	}
	if s.MaxWait < 0 || s.MaxWait > 1<<40 {
		add("max_wait", s.MaxWait, "0 (no bound) to 2^40 documents")
	}
	if s.Last != LastPad && s.Last != LastDrop {
		add("last", s.Last, fmt.Sprintf("%s or %s", LastPad, LastDrop))
	}
	for i := range bad {
		bad[i].Field = "steps." + bad[i].Field
	}
	return bad
}
