// Package config reads the daemon's configuration: one documented struct, filled from the built-in defaults, a YAML
// file, the environment and flags. Later layers take precedence. All errors in all layers are reported together.
//
// default.yaml is the single place that defines a field's default, unit and effect. Default, Print and
// docs/reference/configuration.md are derived from it.
package config

import (
	"time"

	"loaderd/arrowout"
	"loaderd/internal/tracing"
	"loaderd/loader/backend"
	"loaderd/loader/runconfig"
	"loaderd/stream"
	"loaderd/tokenizer"
)

// Config is the whole configuration of a daemon. default.yaml describes every field.
type Config struct {
	// Run is the name of the run. It is part of the names of its streams and of every reader's ticket.
	Run string `koanf:"run"`
	// Plan determines the plan and therefore its fingerprint. Plan.Tokenizer is set when the tokenizer has been loaded.
	Plan      runconfig.Config `koanf:",squash"`
	Tokenizer Tokenizer        `koanf:"tokenizer"`
	Stream    stream.Config    `koanf:"stream"`
	Pull      Pull             `koanf:"pull"`
	Flight    arrowout.Config  `koanf:"flight"`
	Serve     backend.Options  `koanf:"serve"`
	HTTP      HTTP             `koanf:"http"`
	Trace     tracing.Config   `koanf:"trace"`
	Log       Log              `koanf:"log"`
	Shutdown  Shutdown         `koanf:"shutdown"`
}

// Tokenizer chooses the tokenizer and the ids that are not text.
type Tokenizer struct {
	// Name is a built-in name, the path of a tokenizer.json, a tokenizer.model or a rank
	// file, or TokenizerNone.
	Name string `koanf:"name"`
	// Fingerprint is the required fingerprint of the tokenizer; empty accepts any. Without a tokenizer it is the
	// fingerprint that documents must have.
	Fingerprint string `koanf:"fingerprint"`
	// VocabSize is the number of ids without a tokenizer, else 0.
	VocabSize int `koanf:"vocab_size"`
	// End is the end-of-document token: Auto, None or an id.
	End TokenID `koanf:"end"`
	// Pad is the id of padding tokens: Auto or an id.
	Pad TokenID `koanf:"pad"`
	// SpecialAsText encodes special tokens that occur in documents as plain text.
	SpecialAsText bool `koanf:"special_as_text"`
	// AddSpecialTokens adds the tokens that the file's post-processor puts around a text.
	AddSpecialTokens bool `koanf:"add_special_tokens"`
	// Pattern is the regular expression that splits text into words for a rank file; empty: that of a known file.
	Pattern string `koanf:"pattern"`
	// SpecialTokens are the special tokens of a rank file, as TOKEN=ID or TOKEN; empty: those of a known file.
	SpecialTokens []string `koanf:"special_tokens"`
}

// Options returns the options for loading the tokenizer.
func (t Tokenizer) Options() tokenizer.Options {
	return tokenizer.Options{
		SpecialAsText:    t.SpecialAsText,
		AddSpecialTokens: t.AddSpecialTokens,
		Pattern:          t.Pattern,
		SpecialTokens:    t.SpecialTokens,
	}
}

// TokenizerNone is the tokenizer of a run that accepts only pretokenized documents.
const TokenizerNone = "none"

// TokenID is a token id, or the way to determine it: Auto or None.
type TokenID = runconfig.Token

// Values of TokenID besides ids.
const (
	Auto = runconfig.TokenAuto // determined by the tokenizer
	None = runconfig.TokenNone // no such token
)

// resolveAttention replaces AttentionAuto by the attention of the packing method.
func (c *Config) resolveAttention() {
	if c.Plan.Attention == runconfig.AttentionAuto {
		c.Plan.Attention = runconfig.MethodAttention(c.Plan.Packing.Method)
	}
}

// HTTP configures the server of metrics, health checks and the page.
type HTTP struct {
	Listen string `koanf:"listen"`
	// Cert and Key are PEM files for TLS.
	Cert string `koanf:"cert"`
	Key  string `koanf:"key"`
	// Names are host names under which browsers may open the page if no token is required.
	Names []string `koanf:"names"`
	// Insecure permits listening beyond loopback without authentication or without TLS.
	Insecure bool `koanf:"insecure"`
	// MaxConnections and MaxConnectionsPerHost limit the number of connections, in total and per host.
	MaxConnections        int `koanf:"max_connections"`
	MaxConnectionsPerHost int `koanf:"max_connections_per_host"`
}

// Log configures the log on stderr.
type Log struct {
	Level  string `koanf:"level"`
	Format string `koanf:"format"`
	// Progress is the interval of progress lines; 0 disables them.
	Progress time.Duration `koanf:"progress"`
}

// Shutdown configures a graceful stop.
type Shutdown struct {
	Timeout time.Duration `koanf:"timeout"`
}
