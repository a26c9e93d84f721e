package config_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"loaderd/arrowout"
	"loaderd/internal/config"
	"loaderd/internal/tracing"
	"loaderd/loader/backend"
	"loaderd/loader/mixture"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
	"loaderd/shuffle"
	"loaderd/stream"
)

var update = flag.Bool("update", false, "rewrite docs/reference/configuration.md from default.yaml")

func printed(t *testing.T, c config.Config) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDefault_MatchesPackageDefaults(t *testing.T) {
	want := config.Config{
		Run: "default",
		Plan: runconfig.Config{
			Seed: 1,
			Documents: runconfig.Documents{Dedupe: 100000, BOS: runconfig.TokenNone,
				MaxTokens: runconfig.MaxTokens{Do: runconfig.MaxCut},
				Columns:   map[string]runconfig.TokenColumn{}, Meta: map[string]string{},
				FIM: runconfig.FIM{SPMRate: 0.5, Tokens: runconfig.FIMTokens{Prefix: runconfig.TokenAuto,
					Middle: runconfig.TokenAuto,
					Suffix: runconfig.TokenAuto}}},
			Packing: packonline.Config{Method: "bucket", Buckets: []int{2048}, Atom: 1, Pool: 4096, Holdback: 100, MaxAge: 16384,
				Overlap: 0.3, RepeatLoss: "twice", Extra: 50, PaddingThreshold: 0.02,
				Splice: packonline.Splice{Retriever: "bm25", K: 1, Order: "identity", Fill: "exact", Postings: 4096,
					Dimension: 384}},
			Shuffle: shuffle.Config{Window: 1024},
			Steps: runconfig.Steps{Rows: 64, Table: []int{}, Schedule: []runconfig.Phase{}, Backlog: 16, MaxWait: 262144,
				Last: runconfig.LastPad},
			Attention: runconfig.AttentionDocument,
			Sources:   map[string]mixture.Source{},
			Mix: mixture.Mix{Share: mixture.ShareTokens, OnDry: mixture.DryWait, DryAfter: time.Minute, End: mixture.EndAll,
				Schedule: []mixture.Point{}},
		},
		Tokenizer: config.Tokenizer{Name: "gpt2", End: config.Auto, Pad: config.Auto, SpecialTokens: []string{}},
		Stream:    stream.Default(),
		Pull:      config.Pull{From: []string{}, Format: "auto", CSVQuoting: "auto", CSVEscape: "auto"},
		Flight:    arrowout.Default(),
		Serve: backend.Options{Ahead: 64, CacheBytes: 256 << 20, TokenStore: backend.TokenStore{MaxBytes: 64 << 30},
			StallTimeout:      time.Minute,
			IdleReaderTimeout: 10 * time.Minute,
			CheckpointSteps:   200, Retention: backend.RetentionKeep,
			FirstStepQuiet: 30 * time.Second, FirstStepDocuments: 2000,
			ForecastInterval: time.Minute, MeasureTokens: 100e6},
		HTTP:     config.HTTP{Listen: "127.0.0.1:9815", Names: []string{}, MaxConnections: 1024, MaxConnectionsPerHost: 512},
		Trace:    tracing.Config{Share: 0.0001},
		Log:      config.Log{Level: "info", Format: "text", Progress: time.Minute},
		Shutdown: config.Shutdown{Timeout: 20 * time.Second},
	}
	want.Plan.Sources = map[string]mixture.Source{"docs": {Weight: 1, Epochs: 1}}
	if diff := cmp.Diff(want, config.Default()); diff != "" {
		t.Errorf("default.yaml differs from the packages' defaults (-want +got):\n%s", diff)
	}
	if p := config.Default().Validate(); len(p) > 0 {
		t.Errorf("the defaults do not validate: %v", p)
	}
}

func TestDefault_ReturnsIndependentCopies(t *testing.T) {
	c := config.Default()
	c.Plan.Packing.Buckets[0] = 7
	if got := config.Default().Plan.Packing.Buckets[0]; got != 2048 {
		t.Errorf("a change to one Default reaches the next: bucket %d", got)
	}
}

func TestLayers_OverrideInOrder(t *testing.T) {
	l := config.Layers{
		Name: "c.yaml",
		YAML: []byte("run: file\nseed: 18446744073709551615\npacking: {buckets: [1024], pool: 5}\nstream:\n  max_bytes: " +
			"2GB\n  url: nats://a:1,nats://b:2\n" +
			"tokenizer:\n  end: 7\nserve: {stall_timeout: 5m}\nhttp:\n"),
		Environ: []string{"PATH=/bin", "LOADERD_SERVICE_HOST=10.0.0.1", "LOADERD_BIN=/x", "LOADERD_RUN=env", "LOADERD_SEED=",
			"LOADERD_PACKING__POOL=9", "LOADERD_FLIGHT__BATCH_BYTES=1MiB"},
		Overrides: []config.Override{{Path: "packing.pool", Value: "10", Flag: "--set"},
			{Path: "packing.buckets", Value: "512", Flag: "--set"},
			{Path: "packing.atom", Value: "0.5", Flag: "--set"},
			{Path: "tokenizer.special_as_text", Value: "true", Flag: "--set"},
			{Path: "packing.pool", Value: "11", Flag: "--set"}},
	}
	got, err := config.Load(l)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Run = "env"
	want.Plan.Seed = 1<<64 - 1
	want.Plan.Packing.Buckets = []int{512}
	want.Plan.Packing.Pool = 11
	want.Plan.Packing.Atom = 0.5
	want.Stream.MaxBytes = 2e9
	want.Stream.URL = "nats://a:1,nats://b:2"
	want.Tokenizer.End = "7"
	want.Tokenizer.SpecialAsText = true
	want.Serve.StallTimeout = 5 * time.Minute
	want.Flight.BatchBytes = 1 << 20
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	again, err := config.Load(config.Layers{Name: "printed", YAML: []byte(printed(t, got))})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("printed and read again (-want +got):\n%s", diff)
	}
}

// Listening beyond loopback requires TLS and identities, or an explicit insecure setting.
func TestLoad_ListenBeyondLoopbackWithTLSOrInsecure(t *testing.T) {
	for _, text := range []string{
		"flight: {listen: 0.0.0.0:1, identities: x, cert: x, key: x}\nhttp: {listen: 0.0.0.0:2, cert: x, key: x}\n",
		"flight: {listen: 0.0.0.0:1, token_file: x, cert: x, key: x}\n",
		"flight: {listen: 0.0.0.0:1, client_ca: x, cert: x, key: x}\n",
		"flight: {listen: 0.0.0.0:1, insecure: true}\nhttp: {listen: 0.0.0.0:2, insecure: true}\nstream: {listen: " +
			"0.0.0.0:3, insecure: true}\n",
		"stream: {url: nats://host-a:4222, listen: 0.0.0.0:3}\n",
	} {
		if _, err := config.Load(config.Layers{Name: "c.yaml", YAML: []byte(text)}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The example of sources on the documentation page is valid, and its printed form is read as the same configuration.
func TestSources_DocumentedExampleRoundTrips(t *testing.T) {
	c, err := config.Load(config.Layers{Name: "c.yaml", YAML: []byte(`
packing: {buckets: [1024, 2048], pool: 512}
steps: {rows: 32, schedule: [{from_tokens: 12e9, ramp_tokens: 10e9, rows: 128}, {from_tokens: 90e9, table: [64, 32]}]}
sources:
  web: {weight: 0.6}
  code: {weight: 0.3, packing: {method: splice, splice: {retriever: repo}}}
  math: {weight: 0.1, epochs: forever, block: 0, split: {of: 1000, take: [0, 989]}, min_tokens: 5}
  plain: {start: 7}
  old: {start: 2026-11-01T00:00:00Z}
mix:
  share: loss_tokens
  on_dry: share
  dry_after: 5s
  schedule:
    - {tokens: 80e9, ramp: 2e9, weights: {web: 0.3, code: 0.3, math: 0.4, plain: 0, old: 0}}
`), Environ: []string{"LOADERD_SOURCES__WEB__WEIGHT=0.7"}, Overrides: []config.Override{{Path: "sources.math.max_tokens", Value: "900", Flag: "--set"}}})
	if err != nil {
		t.Fatal(err)
	}
	p := packonline.Config{Method: "splice", Buckets: []int{1024, 2048}, Atom: 1, Pool: 512, Holdback: 100, MaxAge: 16384,
		Overlap: 0.3, RepeatLoss: "twice", Extra: 50, PaddingThreshold: 0.02,
		Splice: packonline.Splice{Retriever: "repo", K: 1, Order: "identity", Fill: "exact", Postings: 4096, Dimension: 384}}
	want := map[string]mixture.Source{
		"web":  {Weight: .7, Epochs: 1, Block: mixture.DefaultBlock},
		"code": {Weight: .3, Epochs: 1, Block: mixture.DefaultBlock, Packing: &p, Attention: runconfig.AttentionRow},
		"math": {Weight: .1, Epochs: mixture.Forever, Split: mixture.Split{Of: 1000, Take: []int{0, 989}}, MinTokens: 5,
			MaxTokens: 900},
		"plain": {Weight: 1, Epochs: 1, Start: "7", Block: mixture.DefaultBlock},
		"old":   {Weight: 1, Epochs: 1, Start: "2026-11-01T00:00:00Z", Block: mixture.DefaultBlock},
	}
	if diff := cmp.Diff(want, c.Plan.Sources); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if x := c.Plan.Mix.Schedule; len(x) != 1 || x[0].Tokens != 80e9 || x[0].Ramp != 2e9 || x[0].Weights["math"] != .4 ||
		c.Plan.Mix.DryAfter != 5*time.Second || c.Plan.Mix.Share != mixture.ShareLossTokens {
		t.Errorf("mix is %+v", c.Plan.Mix)
	}
	if !slices.Equal(c.Stream.Sources, []string{"code", "math", "old", "plain", "web"}) {
		t.Errorf("producers may publish to %v", c.Stream.Sources)
	}
	again, err := config.Load(config.Layers{Name: "printed.yaml", YAML: []byte(printed(t, c))})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, again); diff != "" {
		t.Errorf("-config +what is read of its print:\n%s", diff)
	}
	if c.Plan.Fingerprint() != again.Plan.Fingerprint() {
		t.Error("the fingerprint changes when it is printed")
	}
}

// The example configurations are valid.
func TestLoad_ExampleFilesAreValid(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(config.Layers{Name: file, YAML: data}); err != nil {
			t.Error(err)
		}
	}
}

func TestLoad_ReportsEveryInvalidField(t *testing.T) {
	for _, test := range []struct {
		name string
		config.Layers
		want []string
	}{
		{name: "unknown keys", Layers: config.Layers{
			YAML: []byte("sede: 1\npacking:\n  pol: 3\n  frobnicate: 1\npool: 3\nseed: {a: 1}\nwhatever: []\n")}, want: []string{
			`packing.frobnicate: 1: want a known setting of packing: one of atom, buckets, extra, holdback, max_age, max_documents_per_row, method, overlap, padding_threshold, pool, repeat_loss (c.yaml:4)`,
			`packing.pol: 3: want a known setting: did you mean packing.pool? (c.yaml:3)`,
			`pool: 3: want a known setting: did you mean packing.pool? (c.yaml:5)`,
			`sede: 1: want a known setting: did you mean seed? (c.yaml:1)`,
			`seed.a: 1: want a value for seed, which is not a section (c.yaml:6)`,
			`whatever: []: want a known setting; sections are documents, documents.fim, documents.fim.tokens, documents.max_tokens, flight, http, log, mix, packing, packing.splice, pull, serve, serve.token_store, shuffle, shutdown, steps, stream, stream.cluster, stream.system_account, stream.tls, tokenizer, trace (c.yaml:7)`,
		}},
		{name: "wrong types", Layers: config.Layers{YAML: []byte("run: 2024-01-01\nseed: 1.5\npacking: [1]\nshuffle:\n  " +
			"window: 1KiB\nserve:\n  stall_timeout: 30\n  cache_bytes: lots\n" +
			"tokenizer: {end: 1.5, special_as_text: sure}\nsteps: {rows: }\n"),
			Overrides: []config.Override{{Path: "packing.atom", Value: "half", Flag: "--set"}}}, want: []string{
			`packing: [1]: want a section with settings below it (c.yaml:3)`,
			`run: 2024-01-01 00:00:00 +0000 UTC: want text (quote values that look like a number or a date) (c.yaml:1)`,
			`seed: 1.5: want a whole number of 0 or more (c.yaml:2)`,
			`serve.cache_bytes: "lots": want a number of bytes such as 1048576, 64MiB or 1GB (c.yaml:8)`,
			`serve.stall_timeout: 30: want a duration such as 30s or 5m (c.yaml:7)`,
			`shuffle.window: "1KiB": want a whole number (c.yaml:5)`,
			`steps.rows: empty: want a whole number (c.yaml:10)`,
			`tokenizer.end: 1.5: want auto, none or a token id (c.yaml:9)`,
			`tokenizer.special_as_text: "sure": want true or false (c.yaml:9)`,
			`packing.atom: "half": want a number such as 0.5 (--set)`,
		}},
		{name: "out of range, from every layer", Layers: config.Layers{
			YAML: []byte("run: a b\npacking: {method: magic, buckets: [1]}\nattention: maybe\n"),
			Environ: []string{"LOADERD_STEPS__ROWS=0", "LOADERD_LOG__LEVEL=loud", "LOADERD_TRACE__SHARE=1.5",
				"LOADERD_TRACE__ENDPOINT=collector:4318", "LOADERD_SEEED=1", "LOADERD_STREAM__DIRR=x"},
			Overrides: []config.Override{{Path: "packing.pool", Value: "-3", Flag: "--set"},
				{Path: "flight.batch_bytes", Value: "1TiB", Flag: "--set"},
				{Path: "stream.dir", Value: "", Flag: "--data-dir"}, {Path: "serve.ahead", Value: "many", Flag: "--set"}},
		}, want: []string{
			`seeed: "1": want a known setting: did you mean seed? (LOADERD_SEEED)`,
			`stream.dirr: "x": want a known setting: did you mean stream.dir? (LOADERD_STREAM__DIRR)`,
			`serve.ahead: "many": want a whole number (--set)`,
			`run: "a b": want 1 to 64 letters, digits, - and _ (c.yaml:1)`,
			fmt.Sprintf(`packing.method: "magic": want one of %v (c.yaml:2)`, packonline.Methods()),
			`packing.buckets[0]: 1: want a row length of 2 to 1073741823 tokens for this method (c.yaml:2)`,
			`packing.pool: "-3": want 1 to 2^30 pieces (--set)`,
			`steps.rows: "0": want 1 to 2^20 rows (LOADERD_STEPS__ROWS)`,
			`attention: "maybe": want auto, document or row (c.yaml:3)`,
			`stream.dir: "": want a folder for the embedded server's data (--data-dir)`,
			`flight.batch_bytes: "1TiB": want 65536 to 4128768 bytes (messages stay under 4 MiB) (--set)`,
			`trace.endpoint: "collector:4318": want the URL of a collector, such as http://127.0.0.1:4318, or nothing (LOADERD_TRACE__ENDPOINT)`,
			`trace.share: "1.5": want 0 to 1 (LOADERD_TRACE__SHARE)`,
			`log.level: "loud": want debug, info, warn or error (LOADERD_LOG__LEVEL)`,
		}},
		{name: "contradictions", Layers: config.Layers{YAML: []byte("tokenizer: {name: none, pad: 9, vocab_size: " +
			"8}\nserve: {cache_bytes: 4KiB}\nstream: {buffer_bytes: 1MiB, tls: {ca: x}}\n" +
			"flight: {listen: 127.0.0.1:4222, cert: x}\nhttp: {listen: here}\n")}, want: []string{
			`stream.tls.ca: "x": want nothing where the embedded server has no certificate (tls.cert, tls.key) (c.yaml:3)`,
			`flight.cert: "x": want cert and key together, or neither (c.yaml:4)`,
			`tokenizer.fingerprint: "": want the fingerprint that documents carry (sha256: and 64 hexadecimal digits), because tokenizer.name is none (default)`,
			`tokenizer.end: "auto": want none or a token id, because tokenizer.name is none (default)`,
			`tokenizer.pad: 9: want an id below tokenizer.vocab_size 8 (c.yaml:1)`,
			`serve.cache_bytes: "4KiB": want at least the tokens of the largest step, 131072 * 4 bytes = 512KiB (c.yaml:2)`,
			`stream.buffer_bytes: "1MiB": want at least one document: stream.max_document is 32640KiB (c.yaml:3)`,
			`http.listen: "here": want host:port, such as 127.0.0.1:9815; port 0 selects a free one (c.yaml:5)`,
			`flight.listen: "127.0.0.1:4222": want a different address: stream.listen has the same (c.yaml:4)`,
		}},
		{name: "open to everybody", Layers: config.Layers{
			YAML: []byte("stream: {listen: 0.0.0.0:4222}\nflight: {listen: \":8815\"}\nhttp: {listen: 192.0.2.1:9815}\n")},
			want: []string{
				`flight.listen: ":8815": want a loopback address, because any caller would have full access: configure authentication (flight.identities, flight.cert, ` +
					`flight.key), or set flight.insecure: true (c.yaml:2)`,
				`http.listen: "192.0.2.1:9815": want a loopback address, because any caller would see all figures: configure authentication (flight.identities, http.cert, ` +
					`http.key), or set http.insecure: true (c.yaml:3)`,
				`stream.listen: "0.0.0.0:4222": want a loopback address, because tokens and documents would be sent unencrypted: ` +
					`serve with TLS (stream.tls.cert, stream.tls.key), or set stream.insecure: true (c.yaml:1)`,
			}},
		{name: "tokens in the clear", Layers: config.Layers{
			YAML: []byte("flight: {listen: host-a:8815, identities: x}\nhttp: {listen: host-a:9815}\n")}, want: []string{
			`flight.listen: "host-a:8815": want a loopback address, because tokens would be sent unencrypted: serve with TLS (flight.cert, flight.key), or set ` +
				`flight.insecure: true (c.yaml:1)`,
			`http.listen: "host-a:9815": want a loopback address, because tokens would be sent unencrypted: serve with TLS (http.cert, http.key), or set ` +
				`http.insecure: true (c.yaml:2)`,
		}},
		{name: "unknown tokenizer", Layers: config.Layers{YAML: []byte("tokenizer: {name: gpt3, vocab_size: 5}\n")},
			want: []string{
				`tokenizer.name: "gpt3": want one of [gpt2 r50k_base cl100k_base o200k_base], the path of a tokenizer.json, a tokenizer.model or a rank file (.tiktoken), or none (c.yaml:1)`,
				`tokenizer.vocab_size: 5: want 0: tokenizer gpt3 defines it (another size needs tokenizer.name none) (c.yaml:1)`,
			}},
		{name: "a key twice", Layers: config.Layers{YAML: []byte("seed: 1\nrun: a\nseed: 2\n")}, want: []string{
			`"mapping key \"seed\" already defined at line 1": want valid YAML (c.yaml:3)`}},
		{name: "not YAML", Layers: config.Layers{YAML: []byte("seed: [1\n")}, want: []string{
			`"did not find expected ',' or ']'": want valid YAML (c.yaml:1)`}},
		{name: "a bracket that is not closed",
			Layers: config.Layers{YAML: []byte("steps:\n  rows: 8\npacking:\n  buckets: [1024, 2048\nserve:\n  linger: 3s\n")},
			want: []string{
				`"did not find expected ',' or ']'": want valid YAML (c.yaml:4)`}},
		{name: "sources", Layers: config.Layers{YAML: []byte("packing: {buckets: [1024, 2048]}\nsources:\n  web: {weight: " +
			"-1, epochs: never, min_tokns: 3}\n  a.b: {weight: 1}\n" +
			"  code: {packing: {method: magic, buckets: [512]}, split: {of: 10, take: [3, 10]}}\n  forum: {packing: {pol: " +
			"3}, attention: row}\n  math: 3\n" +
			"mix: {share: loss, on_dry: soon, schedule: [{tokens: 5, weights: {web: 1}}, {tokens: 80.5}]}\n")}, want: []string{
			`mix.schedule: [{"tokens":5,"weights":{"web":1}},{"tokens":80.5}]: want a list of points such as {tokens: 80e9, ramp: 2e9, weights: {web: 0.3, code: 0.7}} or {after: web, weights: ...} (c.yaml:8)`,
			`sources.math: 3: want names of sources, each with settings below it: web: {weight: 0.6} (c.yaml:7)`,
			`sources.a.b.weight: 1: want a known setting of a source: did you mean weight? (c.yaml:4)`,
			`sources.forum.packing.pol: 3: want a known setting of a source: did you mean packing.pool? (c.yaml:6)`,
			`sources.web.epochs: "never": want a number of 1 or more, or forever (c.yaml:3)`,
			`sources.web.min_tokns: 3: want a known setting of a source: did you mean min_tokens? (c.yaml:3)`,
			`sources.code.split.take: [3,10]: want [first, last] of parts 0 to 9 (c.yaml:5)`,
			fmt.Sprintf(`sources.code.packing.method: "magic": want one of %v (c.yaml:5)`, packonline.Methods()),
			`sources.web.weight: -1: want a number from 0 to 1e9 (c.yaml:3)`,
			`mix.share: "loss": want tokens or loss_tokens (c.yaml:8)`,
			`mix.on_dry: "soon": want wait or share (c.yaml:8)`,
			`sources.code.packing.buckets: [512]: want some of the run's buckets: [1024 2048] (c.yaml:5)`,
		}},
		{name: "a list", Layers: config.Layers{YAML: []byte("\n- seed\n")}, want: []string{
			`"not a mapping": want lines of ` + "`key: value`" + ` (c.yaml:2)`}},
		{name: "two documents", Layers: config.Layers{YAML: []byte("seed: 1\n---\nseed: 2\n")}, want: []string{
			`"a second document": want one YAML document in the file (c.yaml)`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.Name = "c.yaml"
			_, err := config.Load(test.Layers)
			var problems config.Problems
			if !errors.As(err, &problems) {
				t.Fatalf("error %v, want Problems", err)
			}
			var got []string
			for _, p := range problems {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, line := range test.want {
				if !strings.Contains(err.Error(), line) {
					t.Errorf("message lacks %q:\n%v", line, err)
				}
			}
		})
	}
}

func TestTokenizer_NoneWithPadAndWithoutEnd(t *testing.T) {
	c, err := config.Load(config.Layers{YAML: []byte("tokenizer: {name: none, vocab_size: 8, fingerprint: \"sha256:" +
		strings.Repeat("a", 64) + "\", end: none, pad: 7}\n")})
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := c.Tokenizer.Pad.ID(); id != 7 || !ok {
		t.Errorf("pad is %d, %v", id, ok)
	}
	if _, ok := c.Tokenizer.End.ID(); ok {
		t.Errorf("end none is an id")
	}
}

const begin, end = "<!-- begin default.yaml -->\n```yaml\n", "```\n<!-- end default.yaml -->\n"

// The documentation page contains default.yaml verbatim; -update rewrites it.
func TestDocs_ConfigurationPageMatchesDefaults(t *testing.T) {
	const page = "../../docs/reference/configuration.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), begin)
	_, tail, foundEnd := strings.Cut(rest, end)
	if !found || !foundEnd {
		t.Fatalf("%s lacks the lines\n%s...\n%s", page, begin, end)
	}
	want := head + begin + printed(t, config.Default()) + end + tail
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s does not show default.yaml as it is: run go test ./internal/config -update", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(""), "LOADERD_SEED=1", "packing.pool", "3")
	f.Add([]byte("a: &a [*a]\n"), "LOADERD_STREAM__TLS=1", "stream", "x")
	f.Add([]byte("run: &r x\nstream: {<<: {dir: *r}}\n"), "LOADERD_=", "", "[")
	f.Add([]byte("packing: {buckets: [1, [2], {a: b}, null]}\n? [x]\n: y\n1: 2\n"), "LOADERD___=1", "packing.buckets", ",")
	f.Add([]byte("steps: {rows: 99999999999999999999}\nseed: -1\nlog: {level: 1, format: !!binary aGk=}\n"), "LOADERD_X=",
		"run", "\x00")
	f.Fuzz(func(t *testing.T, yaml []byte, environ, path, value string) {
		c, err := config.Load(config.Layers{Name: "f", YAML: yaml, Environ: []string{environ},
			Overrides: []config.Override{{Path: path, Value: value, Flag: "--set"}}})
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a message")
			}
			return
		}
		again, err := config.Load(config.Layers{Name: "printed", YAML: []byte(printed(t, c))})
		if err != nil {
			t.Fatalf("a valid configuration does not load when printed: %v\n%s", err, printed(t, c))
		}
		if diff := cmp.Diff(c, again); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}

// The printed form of pulled sources is read as the same configuration, and invalid settings are reported with their
// place.
func TestPull_RoundTripsAndReportsInvalid(t *testing.T) {
	yaml := "sources:\n  web: {weight: 2, from: [\"s3://corpus/web/**/*.jsonl\"]}\n  code: {}\npull: {follow: 1m, " +
		"skip_invalid: true}\n"
	c, err := config.Load(config.Layers{Name: "c.yaml", YAML: []byte(yaml)})
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	if err := c.Print(&printed); err != nil {
		t.Fatal(err)
	}
	again, err := config.Load(config.Layers{Name: "again.yaml", YAML: printed.Bytes()})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(c.Pull, again.Pull); d != "" || len(c.PullPatterns()["web"]) != 1 ||
		len(c.PullPatterns()["code"]) != 0 {
		t.Errorf("%+v; again %s", c.Pull, d)
	}
	for yaml, want := range map[string]string{
		"pull: {from: [/data/x.jsonl]}":                                                     "is no address",
		"pull: {from: [\"s3://bucket/x\"]}\nsources: {web: {}}":                             "sources.NAME.from",
		"sources: {web: {from: [\"https://user:hush@h/*?k=hush\"]}}":                        "",
		"sources: {web: {from: 7}}":                                                         "a list of addresses",
		"sources: {web: {from: [\"s3://bucket/x\"], epochs: 2}}\nserve: {retention: purge}": "read once",
		"pull: {follow: 1ms}":                                                               "1s at least",
	} {
		_, err := config.Load(config.Layers{Name: "c.yaml", YAML: []byte(yaml)})
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) || strings.Contains(fmt.Sprint(err), "hush") {
			t.Errorf("%s: %v, want %q", yaml, err, want)
		}
	}
}

// The default unit of the shares does not change the fingerprint of a run, and the other one does.
func TestShare_DefaultKeepsFingerprint(t *testing.T) {
	c := config.Default().Plan
	want := c.Fingerprint()
	if c.Mix.Share = ""; c.Fingerprint() != want {
		t.Error("the default unit is part of the fingerprint")
	}
	if c.Mix.Share = mixture.ShareLossTokens; c.Fingerprint() == want {
		t.Error("loss_tokens is not part of the fingerprint")
	}
}
