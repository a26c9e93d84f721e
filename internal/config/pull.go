package config

import (
	"fmt"
	"time"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/csvtable"
	"loaderd/internal/objects"
)

// Pull is what document streams are filled with by the daemon itself.
type Pull struct {
	// From are patterns of objects for the only source.
	From []string `koanf:"from"`
	// Format, TextColumn and IDColumn are as for loaderd publish.
	Format     string `koanf:"format"`
	TextColumn string `koanf:"text_column"`
	IDColumn   string `koanf:"id_column"`
	// Encoding is that of text objects; empty is UTF-8.
	Encoding string `koanf:"encoding"`
	// CSVQuoting and CSVEscape say how fields of CSV and TSV are written.
	CSVQuoting string `koanf:"csv_quoting"`
	CSVEscape  string `koanf:"csv_escape"`
	// SkipBad and SkipTooLarge leave out, and count, what is no document or larger than the stream takes; else the source
	// stops there.
	SkipBad      bool `koanf:"skip_bad"`
	SkipTooLarge bool `koanf:"skip_too_large"`
	// Follow is how often new objects are looked for when all are read; 0: then the source is sealed.
	Follow time.Duration `koanf:"follow"`

	// Sources are the patterns of sources, by their names: sources.NAME.from.
	Sources map[string][]string `koanf:"-"`
}

// fromField is the setting of a source that has its patterns.
const fromField = "from"

// Pulled are the patterns by source.
func (c Config) Pulled() map[string][]string {
	if len(c.Pull.From) > 0 {
		return map[string][]string{c.Stream.OnlySource(): c.Pull.From}
	}
	return c.Pull.Sources
}

// pull checks what documents are to be pulled from.
func (v *validation) pull(c Config) {
	p := c.Pull
	v.check(len(p.From) == 0 || c.HasOnlySource() && len(p.Sources) == 0, "pull.from", p.From,
		"nothing, where there are sources: sources.NAME.from")
	format := corpus.Format(p.Format)
	v.check(format.Check() == nil && format != corpus.Megatron && format != corpus.MDS, "pull.format", p.Format,
		"a format of loaderd publish --format that is of single files")
	_, err := corpus.Encodings(p.Encoding)
	v.check(err == nil, "pull.encoding", p.Encoding,
		"the name of an encoding, such as latin1, shift_jis or utf-16, or nothing for UTF-8")
	v.check(csvtable.CheckQuoting(p.CSVQuoting) == nil, "pull.csv_quoting", p.CSVQuoting, "auto, on or off")
	v.check(csvtable.CheckEscape(p.CSVEscape) == nil, "pull.csv_escape", p.CSVEscape, "auto, none or backslash")
	v.check(p.Follow >= 0 && (p.Follow == 0 || p.Follow >= time.Second), "pull.follow", p.Follow, "0, or 1s at least")
	for name, patterns := range c.Pulled() {
		path := "pull.from"
		if len(p.From) == 0 {
			path = mixedField + "." + name + "." + fromField
			v.check(c.Plan.Sources[name].Epochs == 1 || c.Serve.Release != "purge", path, objectsNamed(patterns),
				"a source that is read once, or serve.release keep and room for all of it")
		}
		for _, pattern := range patterns {
			err := objects.Check(pattern)
			v.check(err == nil, path, objects.Name(pattern), fmt.Sprintf("addresses of objects (%v)", err))
		}
	}
}

// objectsNamed are patterns as they may be shown.
func objectsNamed(patterns []string) (names []string) {
	for _, pattern := range patterns {
		names = append(names, objects.Name(pattern))
	}
	return names
}
