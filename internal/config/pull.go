package config

import (
	"fmt"
	"time"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/csvtable"
	"loaderd/internal/objects"
)

// Pull configures the sources that the daemon fills from object stores.
type Pull struct {
	// From are the object patterns of the only source.
	From []string `koanf:"from"`
	// Format, TextColumn and IDColumn are as in loaderd publish.
	Format     string `koanf:"format"`
	TextColumn string `koanf:"text_column"`
	IDColumn   string `koanf:"id_column"`
	// Encoding is the encoding of text objects; empty is UTF-8.
	Encoding string `koanf:"encoding"`
	// CSVQuoting and CSVEscape are the quoting and escaping of CSV and TSV fields.
	CSVQuoting string `koanf:"csv_quoting"`
	CSVEscape  string `koanf:"csv_escape"`
	// SkipInvalid and SkipTooLarge skip and count invalid documents and documents larger than the stream permits.
	// Otherwise the source stops at such a document.
	SkipInvalid  bool `koanf:"skip_invalid"`
	SkipTooLarge bool `koanf:"skip_too_large"`
	// Follow is the interval of the search for new objects when all are read; 0: the source is then sealed.
	Follow time.Duration `koanf:"follow"`

	// Sources are the object patterns by source: sources.NAME.from.
	Sources map[string][]string `koanf:"-"`
}

// fromField is the setting of a source that contains its patterns.
const fromField = "from"

// PullPatterns returns the patterns by source.
func (c Config) PullPatterns() map[string][]string {
	if len(c.Pull.From) > 0 {
		return map[string][]string{c.Stream.OnlySource(): c.Pull.From}
	}
	return c.Pull.Sources
}

// pull validates the settings of pulled sources.
func (v *validation) pull(c Config) {
	p := c.Pull
	v.check(len(p.From) == 0 || c.HasOnlySource() && len(p.Sources) == 0, "pull.from", p.From,
		"empty, because the run has several sources: set sources.NAME.from")
	format := corpus.Format(p.Format)
	v.check(format.Check() == nil && format != corpus.Megatron && format != corpus.MDS, "pull.format", p.Format,
		"a single-file format of loaderd publish --format")
	_, err := corpus.FindEncoding(p.Encoding)
	v.check(err == nil, "pull.encoding", p.Encoding,
		"the name of an encoding, such as latin1, shift_jis or utf-16, or empty for UTF-8")
	v.check(csvtable.CheckQuoting(p.CSVQuoting) == nil, "pull.csv_quoting", p.CSVQuoting, "auto, on or off")
	v.check(csvtable.CheckEscape(p.CSVEscape) == nil, "pull.csv_escape", p.CSVEscape, "auto, none or backslash")
	v.check(p.Follow >= 0 && (p.Follow == 0 || p.Follow >= time.Second), "pull.follow", p.Follow, "0, or 1s at least")
	for name, patterns := range c.PullPatterns() {
		path := "pull.from"
		if len(p.From) == 0 {
			path = sourcesSection + "." + name + "." + fromField
			v.check(c.Plan.Sources[name].Epochs == 1 || c.Serve.Retention != "purge", path, patternNames(patterns),
				"a source that is read once, or serve.retention keep and space for the whole source")
		}
		for _, pattern := range patterns {
			err := objects.ValidatePattern(pattern)
			v.check(err == nil, path, objects.RedactAddress(pattern), fmt.Sprintf("addresses of objects (%v)", err))
		}
	}
}

// patternNames returns patterns without secrets, for messages.
func patternNames(patterns []string) (names []string) {
	for _, pattern := range patterns {
		names = append(names, objects.RedactAddress(pattern))
	}
	return names
}
