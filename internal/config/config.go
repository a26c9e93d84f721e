// Package config reads the daemon's configuration: one documented struct, filled from the built-in defaults, a YAML
// file, the environment and flags, in this order, the later over the earlier. Everything that is wrong in any of them
// is reported at once.
//
// default.yaml is the single place where a field's default, unit and effect are written; Default, Print and
// docs/configuration.md come from it.
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
	// Run is the name of the run: part of the names of its streams and of every reader's ticket.
	Run string `koanf:"run"`
	// Plan shapes the plan and therefore its fingerprint. Its own Tokenizer is filled when the tokenizer has been loaded.
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
	// Name is a built-in name, the path of a tokenizer.json or a rank file, or TokenizerNone.
	Name string `koanf:"name"`
	// Fingerprint is what the tokenizer must have; empty accepts any. Without a tokenizer it is what documents must carry.
	Fingerprint string `koanf:"fingerprint"`
	// VocabSize is the number of ids when there is no tokenizer to ask, else 0.
	VocabSize int `koanf:"vocab_size"`
	// End is the end-of-document token: Auto, None or an id.
	End TokenID `koanf:"end"`
	// Pad fills padding: Auto or an id.
	Pad TokenID `koanf:"pad"`
	// SpecialAsText encodes special tokens that occur in documents as plain text.
	SpecialAsText bool `koanf:"special_as_text"`
	// AddSpecialTokens adds the tokens that the file's post-processor puts around a text.
	AddSpecialTokens bool `koanf:"add_special_tokens"`
	// Pattern cuts text into words for a rank file; empty takes that of a known file.
	Pattern string `koanf:"pattern"`
	// SpecialTokens are those of a rank file, TOKEN=ID or TOKEN; none takes those of a known file.
	SpecialTokens []string `koanf:"special_tokens"`
}

// Options are those that the tokenizer is loaded with.
func (t Tokenizer) Options() tokenizer.Options {
	return tokenizer.Options{
		SpecialAsText:    t.SpecialAsText,
		AddSpecialTokens: t.AddSpecialTokens,
		Pattern:          t.Pattern,
		SpecialTokens:    t.SpecialTokens,
	}
}

// TokenizerNone is the tokenizer of a run that takes only documents that are already tokenized.
const TokenizerNone = "none"

// TokenID is a token id, or how to find it: Auto or None.
type TokenID = runconfig.Token

// Values of TokenID besides ids.
const (
	Auto = runconfig.TokenAuto // what the tokenizer says
	None = runconfig.TokenNone // no such token
)

// settleAttention chooses what was left to the packing method.
func (c *Config) settleAttention() {
	if c.Plan.Attention == runconfig.AttentionAuto {
		c.Plan.Attention = runconfig.AttentionOf(c.Plan.Packing.Method)
	}
}

// HTTP is where metrics and health are served.
type HTTP struct {
	Listen string `koanf:"listen"`
	// Cert and Key are PEM files for TLS.
	Cert string `koanf:"cert"`
	Key  string `koanf:"key"`
	// Names are host names that browsers may reach the page by while no token is asked for.
	Names []string `koanf:"names"`
	// Insecure permits to listen beyond loopback without asking who calls, or without TLS.
	Insecure bool `koanf:"insecure"`
	// MaxConnections and MaxConnectionsPerHost bound connections, of all and of one host.
	MaxConnections        int `koanf:"max_connections"`
	MaxConnectionsPerHost int `koanf:"max_connections_per_host"`
}

// Log shapes the log on stderr.
type Log struct {
	Level  string `koanf:"level"`
	Format string `koanf:"format"`
	// Progress is how often a line tells how the run gets on; 0 never.
	Progress time.Duration `koanf:"progress"`
}

// Shutdown bounds a graceful stop.
type Shutdown struct {
	Timeout time.Duration `koanf:"timeout"`
}
