package config

import (
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"loaderd/internal/auth"
	"loaderd/loader/backend"
	"loaderd/loader/runconfig"
	"loaderd/stream"
	"loaderd/tokenizer"
)

// Validate returns every field that is out of range and every contradiction between fields.
func (c Config) Validate() Problems {
	v := &validation{}
	v.check(stream.ValidRun(c.Run) == nil, "run", c.Run, "1 to 64 letters, digits, - and _")
	for _, e := range c.Plan.Validate() {
		if e.Field == "attention" {
			e.Want = runconfig.AttentionAuto + ", " + e.Want
		}
		v.add(e.Field, e.Value, e.Want)
	}
	only := c.Stream.OnlySource()
	v.check(!c.HasOnlySource() || len(c.Plan.Sources) == 1, sourcesSection+"."+only, len(c.Plan.Sources),
		fmt.Sprintf("another name: %s is the document stream (stream.subject), which receives the documents of all sources",
			only))
	v.check(c.Plan.Mix.DryAfter >= 0, "mix.dry_after", c.Plan.Mix.DryAfter, "0 (immediately) or longer")
	for _, e := range c.Stream.Validate() {
		v.add("stream."+e.Field, e.Value, e.Want)
	}
	for _, e := range c.Flight.Validate() {
		v.add("flight."+e.Field, e.Value, e.Want)
	}
	v.tokenizer(c.Tokenizer)
	v.documents(c)
	v.pull(c)
	v.serve(c)
	v.addresses(c)
	for _, e := range c.Trace.Validate() {
		v.add("trace."+e.Field, e.Value, e.Want)
	}
	v.check(slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level), "log.level", c.Log.Level,
		"debug, info, warn or error")
	v.check(c.Log.Format == "text" || c.Log.Format == "json", "log.format", c.Log.Format, "text or json")
	v.check(c.Log.Progress >= 0, "log.progress", c.Log.Progress, "0 (never) or more")
	v.check(c.Shutdown.Timeout > 0 && c.Shutdown.Timeout <= time.Hour, "shutdown.timeout", c.Shutdown.Timeout,
		"more than 0 and at most 1h")
	return v.problems
}

type validation struct{ problems Problems }

func (v *validation) add(path string, value any, want string) {
	v.problems = append(v.problems, Problem{Path: path, Value: value, Want: want})
}

func (v *validation) check(ok bool, path string, value any, want string) {
	if !ok {
		v.add(path, value, want)
	}
}

func (v *validation) tokenizer(t Tokenizer) {
	builtIn := tokenizer.Builtin()
	isFile := strings.ContainsAny(t.Name, `/\`) || slices.Contains([]string{".json", ".tiktoken", ".model"},
		filepath.Ext(t.Name))
	if !isFile && t.Name != TokenizerNone && !slices.Contains(builtIn, t.Name) {
		v.add("tokenizer.name", t.Name, fmt.Sprintf(
			"one of %v, the path of a tokenizer.json, a tokenizer.model or a rank file (.tiktoken), or none", builtIn))
	}
	v.tokenID("tokenizer.end", t.End, "auto, none or a token id", Auto, None)
	v.tokenID("tokenizer.pad", t.Pad, "auto or a token id", Auto)
	if t.Name != TokenizerNone {
		v.check(t.VocabSize == 0, "tokenizer.vocab_size", t.VocabSize,
			"0: tokenizer "+t.Name+" defines it (another size needs tokenizer.name none)")
		return
	}
	v.check(t.VocabSize >= 1 && t.VocabSize <= 1<<30, "tokenizer.vocab_size", t.VocabSize,
		"1 to 2^30 ids, because tokenizer.name is none")
	v.check(tokenizer.FingerprintPattern.MatchString(t.Fingerprint), "tokenizer.fingerprint", t.Fingerprint,
		"the fingerprint that documents carry (sha256: and 64 hexadecimal digits), because tokenizer.name is none")
	v.check(t.End != Auto, "tokenizer.end", t.End, "none or a token id, because tokenizer.name is none")
	v.check(t.Pad != Auto, "tokenizer.pad", t.Pad, "a token id, because tokenizer.name is none")
	v.tokenBelow("tokenizer.end", t.End, t.VocabSize)
	v.tokenBelow("tokenizer.pad", t.Pad, t.VocabSize)
}

// documents checks the tokens put before and into documents, if no tokenizer can resolve them.
func (v *validation) documents(c Config) {
	if c.Tokenizer.Name != TokenizerNone {
		return
	}
	d := c.Plan.Documents
	tokens := map[string]TokenID{"documents.bos": d.BOS}
	if t := d.FIM.Tokens; d.FIM.Rate != 0 {
		tokens["documents.fim.tokens.prefix"], tokens["documents.fim.tokens.middle"],
			tokens["documents.fim.tokens.suffix"] = t.Prefix, t.Middle, t.Suffix
	}
	for _, path := range slices.Sorted(maps.Keys(tokens)) {
		t := tokens[path]
		_, isID := t.ID()
		v.check(isID || !t.IsSet(), path, t, "a token id, because tokenizer.name is none")
		v.tokenBelow(path, t, c.Tokenizer.VocabSize)
	}
}

func (v *validation) tokenBelow(path string, t TokenID, vocabSize int) {
	id, ok := t.ID()
	v.check(!ok || vocabSize < 1 || int(id) < vocabSize, path, t, fmt.Sprintf("an id below tokenizer.vocab_size %d",
		vocabSize))
}

func (v *validation) tokenID(path string, t TokenID, want string, names ...TokenID) {
	_, isID := t.ID()
	v.check(isID || slices.Contains(names, t), path, t, want)
}

func (v *validation) serve(c Config) {
	s := c.Serve
	v.check(s.Ahead >= 1 && s.Ahead <= 1<<20, "serve.ahead", s.Ahead, "1 to 2^20 steps")
	v.check(s.StallTimeout > 0 && s.StallTimeout <= 24*time.Hour, "serve.stall_timeout", s.StallTimeout,
		"more than 0 and at most 24h")
	v.check(s.CheckpointSteps >= 0 && s.CheckpointSteps <= 1<<30, "serve.checkpoint_steps", s.CheckpointSteps,
		"0 (none) to 2^30 steps")
	v.check(s.Retention == backend.RetentionKeep || s.Retention == backend.RetentionPurge, "serve.retention", s.Retention,
		backend.RetentionKeep+" or "+backend.RetentionPurge)
	v.check(s.IdleReaderTimeout >= 0, "serve.idle_reader_timeout", s.IdleReaderTimeout, "0 (never) or more")
	v.check(s.Linger >= 0, "serve.linger", s.Linger, "0 (never) or more")
	v.check(s.FirstStepQuiet >= 0, "serve.first_step_quiet", s.FirstStepQuiet, "0 (never) or more")
	v.check(s.FirstStepDocuments >= 0 && s.FirstStepDocuments <= 1<<30, "serve.first_step_documents", s.FirstStepDocuments,
		"0 (never) to 2^30 documents")
	v.check(s.PurgeDelay >= 0, "serve.purge_delay", s.PurgeDelay, "0 or more")
	v.check(s.ForecastInterval == 0 || s.ForecastInterval >= time.Second, "serve.forecast", s.ForecastInterval,
		"0 (never), or 1s or more")
	v.check(s.CacheBytes >= 0, "serve.cache_bytes", s.CacheBytes, "0 bytes or more")
	v.check(s.TokenStore.MaxBytes >= 0, "serve.token_store.max_bytes", s.TokenStore.MaxBytes, "0 bytes or more")
	if s.CacheBytes >= 0 {
		const idBytes = 4
		step := c.Plan.MaxStepTokens()
		v.check(s.CacheBytes >= step*idBytes, "serve.cache_bytes", formatSize(s.CacheBytes),
			fmt.Sprintf("at least the tokens of the largest step, %d * %d bytes = %s", step, idBytes, formatSize(step*idBytes)))
	}
	if c.Stream.BufferBytes > 0 && c.Stream.MaxDocument > 0 {
		v.check(c.Stream.BufferBytes >= int64(c.Stream.MaxDocument), "stream.buffer_bytes", formatSize(c.Stream.BufferBytes),
			"at least one document: stream.max_document is "+formatSize(int64(c.Stream.MaxDocument)))
	}
}

// addresses validates the addresses of servers. The embedded NATS server, Flight and HTTP require different ports.
func (v *validation) addresses(c Config) {
	v.address("http.listen", c.HTTP.Listen)
	v.check((c.HTTP.Cert == "") == (c.HTTP.Key == ""), "http.cert", c.HTTP.Cert, "cert and key together, or neither")
	v.check(c.HTTP.MaxConnections >= 1 && c.HTTP.MaxConnections <= 1<<20, "http.max_connections", c.HTTP.MaxConnections,
		"1 to 2^20")
	v.check(c.HTTP.MaxConnectionsPerHost >= 1 && c.HTTP.MaxConnectionsPerHost <= 1<<20, "http.max_connections_per_host",
		c.HTTP.MaxConnectionsPerHost, "1 to 2^20")
	if !c.HTTP.Insecure && auth.IsExposed(c.HTTP.Listen) {
		v.check(c.Flight.TokenFile != "" || c.Flight.Identities != "", "http.listen", c.HTTP.Listen,
			"a loopback address, because any caller would see all figures: configure authentication (flight.identities, "+
				"http.cert, http.key), or set http.insecure: true")
		v.check(c.HTTP.Cert != "" || c.Flight.TokenFile == "" && c.Flight.Identities == "", "http.listen", c.HTTP.Listen,
			"a loopback address, because tokens would be sent unencrypted: serve with TLS (http.cert, http.key), or set "+
				"http.insecure: true")
	}
	if c.Stream.Embedded() && !c.Stream.Insecure && c.Stream.TLS.Cert == "" {
		v.check(!auth.IsExposed(c.Stream.Listen), "stream.listen", c.Stream.Listen,
			"a loopback address, because tokens and documents would be sent unencrypted: "+
				"serve with TLS (stream.tls.cert, stream.tls.key), or set stream.insecure: true")
	}
	taken := map[string]string{}
	for _, x := range []struct{ path, address string }{
		{"stream.listen", c.Stream.Listen}, {"stream.cluster.listen", c.Stream.Cluster.Listen},
		{"flight.listen", c.Flight.Listen}, {"http.listen", c.HTTP.Listen},
	} {
		if x.path == "stream.listen" && !c.Stream.Embedded() || x.path == "stream.cluster.listen" && !c.Stream.Clustered() {
			continue // no embedded server, or one without routes
		}
		if _, port, err := net.SplitHostPort(x.address); err != nil || port == "0" {
			continue
		}
		if other, ok := taken[x.address]; ok {
			v.add(x.path, x.address, "a different address: "+other+" has the same")
			continue
		}
		taken[x.address] = x.path
	}
}

func (v *validation) address(path, address string) {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	v.check(err == nil, path, address, "host:port, such as 127.0.0.1:9815; port 0 selects a free one")
}
