package mixture

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"loaderd/packonline"
	"loaderd/shuffle"
)

// Config determines the order in which a run takes the documents of its sources.
type Config struct {
	Sources map[string]Source // at the start of the run
	Mix     Mix
	// Seed keys the order of documents in an epoch.
	Seed uint64
}

// Source configures how a run reads one source.
type Source struct {
	// Weight is the source's share of what Mix.Share names, relative to the weights of the other sources.
	Weight float64 `koanf:"weight" json:"weight"`
	// Epochs is how often the source is read. Further epochs require that it is sealed.
	Epochs Epochs `koanf:"epochs" json:"epochs"`
	// Block is how many consecutive documents of the stream stay together in an epoch that is read in a drawn order
	// (unit: documents). 0 reads every epoch in the order of the stream.
	Block int `koanf:"block" json:"block"`
	// Start is the first document that is read when the source is added to a run. Values: first or empty (the first one
	// in the stream), new (the first one published later), a sequence, or an RFC 3339 time (the first one stored from
	// then on). It does not affect the order: the plan records the actual first document.
	Start string `koanf:"start" json:"start,omitempty"`
	// Split chooses a part of the documents by a hash of their ids. The zero Split takes all.
	Split Split `koanf:"split" json:"split,omitzero"`
	// MinTokens and MaxTokens bound the lengths of documents that are used (unit: tokens, end-of-document token included).
	// 0 sets no bound.
	MinTokens int `koanf:"min_tokens" json:"min_tokens,omitempty"`
	MaxTokens int `koanf:"max_tokens" json:"max_tokens,omitempty"`
	// Where is the filter of the source's documents, in addition to the run's; empty for none. The mixture does not read
	// it.
	Where string `koanf:"where" json:"where,omitempty"`
	// Packing packs the source's documents separately, in rows of some of the run's buckets. With nil, they are packed
	// with the run's configuration, together with those of all other sources without a Packing.
	Packing *packonline.Config `koanf:"packing" json:"packing,omitempty"`
	// Attention applies to the rows of a source with its own Packing. The mixture itself reads neither.
	Attention string `koanf:"attention" json:"attention,omitempty"`
}

// Mix configures how the sources are combined.
type Mix struct {
	// Share is what all weights are shares of: tokens, or tokens that have a loss.
	Share ShareUnit `koanf:"share" json:"share,omitzero"`
	// OnDry is the policy when the next source has no document: wait, or share (after DryAfter its weight is shared by the
	// others).
	OnDry string `koanf:"on_dry" json:"on_dry"`
	// DryAfter does not affect the order, because the pause of a source is recorded.
	DryAfter time.Duration `koanf:"dry_after" json:"-"`
	// End is when the run ends: when all sources are used up, or when the first one is.
	End string `koanf:"end" json:"end"`
	// Schedule changes the weights one point after another: at numbers of taken tokens, in ascending order of Tokens, or
	// at the end of a source. All tokens count there, in every unit of the shares.
	Schedule []Point `koanf:"schedule" json:"schedule,omitempty"`
}

// Point is a change of weights in a schedule.
type Point struct {
	// Tokens is how many tokens the run has taken when the change starts. It is 0 if After is set.
	Tokens Tokens `koanf:"tokens" json:"tokens"`
	// After is the source after whose last document the change starts; empty if it starts at Tokens.
	After string `koanf:"after" json:"after,omitempty"`
	// Ramp is the number of tokens over which the shares change linearly to Weights. 0 changes them immediately.
	Ramp Tokens `koanf:"ramp" json:"ramp,omitempty"`
	// Weights are relative to each other, one for every source of the configuration.
	Weights map[string]float64 `koanf:"weights" json:"weights"`
}

// Values of Mix.Dry and Mix.End.
const (
	DryWait  = "wait"
	DryShare = "share"
	EndAll   = "all"
	EndFirst = "first"
)

// Defaults of a Source and a Mix.
const (
	DefaultBlock = 32
	maxBlock     = 1 << 20
	// MaxSources is the maximum number of sources of a run, including removed ones.
	MaxSources = 1024
)

// Tokens is a number of tokens. In a configuration it may be written as 80e9.
type Tokens int64

// ParseTokens reads a number of tokens from a configuration: 80000000000, 80e9, or either as text.
func ParseTokens(value any) (Tokens, error) {
	text := fmt.Sprint(value)
	if n, err := strconv.ParseInt(text, 10, 62); err == nil && n >= 0 {
		return Tokens(n), nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || x != math.Trunc(x) || !(x >= 0 && x < 1<<62) {
		return 0, fmt.Errorf("%q is no number of tokens: 80e9 or 80000000000 is one", text)
	}
	return Tokens(x), nil
}

// Epochs is how often a source is read.
type Epochs int

// Forever reads a source repeatedly without end.
const Forever Epochs = -1

// ParseEpochs reads a number of epochs, or forever, from a configuration.
func ParseEpochs(value any) (Epochs, error) {
	text := fmt.Sprint(value)
	if text == Forever.String() {
		return Forever, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1<<30 {
		return 0, fmt.Errorf("%q is no number of epochs: 1 or more, or %s", text, Forever)
	}
	return Epochs(n), nil
}

func (e Epochs) String() string {
	if e == Forever {
		return "forever"
	}
	return strconv.Itoa(int(e))
}

// MarshalJSON writes a number, or "forever".
func (e Epochs) MarshalJSON() ([]byte, error) {
	if e == Forever {
		return json.Marshal(e.String())
	}
	return json.Marshal(int(e))
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (e *Epochs) UnmarshalJSON(b []byte) (err error) {
	*e, err = ParseEpochs(strings.Trim(string(b), `"`))
	return err
}

// HasEpochAfter reports whether another epoch follows after done epochs.
func (e Epochs) HasEpochAfter(done uint64) bool { return e == Forever || done < uint64(e) }

// Split selects the documents whose hash falls into a range of Of equal parts. The key of the hash never changes. So
// two runs with ranges that do not overlap share no document, even if it is published again elsewhere in the stream.
type Split struct {
	Of   int   `koanf:"of" json:"of"`
	Take []int `koanf:"take" json:"take"` // first and last part
}

// splitKey keys the hash; all runs use it.
var splitKey = shuffle.NewKey(0, "split")

// Includes reports whether a document belongs to the split. It hashes the document's id or, if the document has none
// (id 0), its sequence.
func (s Split) Includes(id, sequence uint64) bool {
	if s.Of == 0 {
		return true
	}
	if id == 0 {
		id = sequence
	}
	part := splitKey.IntN(id, s.Of)
	return part >= s.Take[0] && part <= s.Take[1]
}

// Values of Source.Start, in addition to sequences and times.
const (
	StartFirst = "first"
	StartNew   = "new"
)

// ParseStart parses a Start that is a sequence or a time. For StartFirst, StartNew and the empty string both are zero.
func ParseStart(text string) (sequence uint64, from time.Time, err error) {
	if text == "" || text == StartFirst || text == StartNew {
		return 0, from, nil
	}
	if sequence, err = strconv.ParseUint(text, 10, 48); err == nil && sequence > 0 {
		return sequence, from, nil
	}
	if from, err = time.Parse(time.RFC3339, text); err != nil {
		return 0, from, fmt.Errorf("%q is neither %s nor %s, no sequence from 1 on, and no time such as 2026-11-01T00:00:00Z",
			text, StartFirst, StartNew)
	}
	return 0, from, nil
}

// FieldError is an invalid field of a configuration.
type FieldError = shuffle.FieldError

// Validate returns every invalid field, with its path in a configuration file.
func (c Config) Validate() (bad []FieldError) {
	add := func(field string, value any, want string) {
		bad = append(bad, FieldError{Field: field, Value: value, Want: want})
	}
	if n := len(c.Sources); n < 1 || n > MaxSources {
		add("sources", n, fmt.Sprintf("1 to %d sources", MaxSources))
	}
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		s := c.Sources[name]
		if !IsValidName(name) {
			add("sources", name,
				"a name of letters, digits, - and _, at most 64: it is a part of a stream's name and of subjects")
		}
		for _, e := range s.Validate() {
			add("sources."+name+"."+e.Field, e.Value, e.Want)
		}
		sum += s.Weight
	}
	if len(bad) == 0 && sum == 0 {
		add("sources", "weights that are all 0", "a weight above 0 for one source at least")
	}
	if want := c.Mix.Share.validate(); want != "" {
		add("mix.share", string(c.Mix.Share), want)
	}
	if c.Mix.OnDry != DryWait && c.Mix.OnDry != DryShare {
		add("mix.on_dry", c.Mix.OnDry, fmt.Sprintf("%s or %s", DryWait, DryShare))
	}
	if c.Mix.End != EndAll && c.Mix.End != EndFirst {
		add("mix.end", c.Mix.End, fmt.Sprintf("%s or %s", EndAll, EndFirst))
	}
	return append(bad, c.validateSchedule()...)
}

// Validate returns every invalid field of a source.
func (s Source) Validate() (bad []FieldError) {
	add := func(field string, value any, want string) {
		bad = append(bad, FieldError{Field: field, Value: value, Want: want})
	}
	if !isValidWeight(s.Weight) {
		add("weight", s.Weight, weightRange)
	}
	if s.Epochs != Forever && s.Epochs < 1 {
		add("epochs", int(s.Epochs), "1 or more, or forever")
	}
	if s.Block < 0 || s.Block > maxBlock {
		add("block", s.Block, "0 (the order of the stream) to 2^20 documents")
	}
	if _, _, err := ParseStart(s.Start); err != nil {
		add("start", s.Start, "first, new, a sequence from 1 on, or a time such as 2026-11-01T00:00:00Z")
	}
	s.Split.validate(add)
	if s.MinTokens < 0 {
		add("min_tokens", s.MinTokens, "0 (no bound) or more tokens")
	}
	if s.MaxTokens < 0 || s.MaxTokens > 0 && s.MaxTokens < s.MinTokens {
		add("max_tokens", s.MaxTokens, "0 (no bound), or at least min_tokens")
	}
	if s.Packing != nil {
		for _, e := range s.Packing.Validate() {
			add("packing."+e.Field, e.Value, e.Want)
		}
	}
	return bad
}

// validate reports the invalid fields of a split.
func (s Split) validate(add func(field string, value any, want string)) {
	switch t := s.Take; {
	case s.Of == 0 && len(t) == 0:
	case s.Of < 1 || s.Of > 1<<30:
		add("split.of", s.Of, "1 to 2^30 parts")
	case len(t) != 2 || t[0] < 0 || t[0] > t[1] || t[1] >= s.Of:
		add("split.take", t, fmt.Sprintf("[first, last] of parts 0 to %d", s.Of-1))
	}
}

func (c Config) validateSchedule() (bad []FieldError) {
	add := func(i int, field string, value any, want string) {
		bad = append(bad, FieldError{Field: fmt.Sprintf("mix.schedule[%d].%s", i, field), Value: value, Want: want})
	}
	behind := Tokens(0) // the end of the ramp before
	for i, p := range c.Mix.Schedule {
		if p.Ramp < 0 {
			add(i, "ramp", p.Ramp, "0 (at once) or more tokens")
		}
		if p.After != "" {
			bad = append(bad, c.validateAfter(i, p)...)
		} else if p.Tokens < behind {
			add(i, "tokens", p.Tokens, fmt.Sprintf("%d or more tokens: where the change before is done", behind))
		}
		if p.Tokens > 1<<60 || p.Ramp > 1<<60 {
			add(i, "tokens", p.Tokens, "at most 2^60 tokens")
		}
		behind = max(behind, p.Tokens+max(p.Ramp, 0))
		sum := 0.0
		for _, name := range slices.Sorted(maps.Keys(p.Weights)) {
			if _, known := c.Sources[name]; !known {
				add(i, "weights."+name, p.Weights[name], "a source of the configuration")
			}
			if !isValidWeight(p.Weights[name]) {
				add(i, "weights."+name, p.Weights[name], weightRange)
			}
			sum += p.Weights[name]
		}
		if missing := c.sourcesWithoutWeight(p.Weights); len(missing) > 0 {
			add(i, "weights", p.Weights, fmt.Sprintf("a weight for every source, 0 to leave it out: %v has none", missing))
		} else if sum == 0 {
			add(i, "weights", p.Weights, "a weight above 0 for one source at least")
		}
	}
	return bad
}

// validateAfter returns the invalid fields of a point that starts at the end of a source.
func (c Config) validateAfter(i int, p Point) (bad []FieldError) {
	field := fmt.Sprintf("mix.schedule[%d].after", i)
	switch s, known := c.Sources[p.After]; {
	case !known:
		bad = append(bad, FieldError{Field: field, Value: p.After, Want: "a source of the configuration"})
	case s.Epochs == Forever:
		bad = append(bad, FieldError{Field: field, Value: p.After, Want: "a source that ends: its epochs are forever"})
	case c.Mix.End == EndFirst:
		bad = append(bad, FieldError{Field: field, Value: p.After,
			Want: "mix.end: all, because the run ends with its first source"})
	}
	if p.Tokens != 0 {
		bad = append(bad, FieldError{Field: fmt.Sprintf("mix.schedule[%d].tokens", i), Value: p.Tokens,
			Want: "no tokens, because the point has after"})
	}
	return bad
}

// sourcesWithoutWeight returns the sources without a weight.
func (c Config) sourcesWithoutWeight(weights map[string]float64) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		if _, ok := weights[name]; !ok {
			out = append(out, name)
		}
	}
	return out
}

const weightRange = "a number from 0 to 1e9"

// ValidateWeight returns an error if w is not a valid weight.
func ValidateWeight(source string, w float64) error {
	if isValidWeight(w) {
		return nil
	}
	return fmt.Errorf("weight %v of source %s: want %s", w, source, weightRange)
}

func isValidWeight(w float64) bool { return w >= 0 && w <= 1e9 } // false for NaN

// IsValidName reports whether name is valid for a source. It is a token of subjects and a part of a stream's name.
func IsValidName(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}
