package daemon

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/stream"
)

// Documents resolves the configured tokens with the tokenizer, and the plan records their ids.
func TestTransformations_TokensResolvedToIDs(t *testing.T) {
	auto := runconfig.FIMTokens{Prefix: "auto", Middle: "auto", Suffix: "auto"}
	fim := func(tokens runconfig.FIMTokens) runconfig.Documents {
		return runconfig.Documents{FIM: runconfig.FIM{Rate: 0.5, Tokens: tokens}}
	}
	for _, tt := range []struct {
		name      string
		tokenizer string
		c         runconfig.Documents
		want      runconfig.Documents
		refused   string
	}{
		{name: "nothing", tokenizer: "gpt2", c: runconfig.Documents{BOS: runconfig.TokenNone,
			FIM: runconfig.FIM{Tokens: auto}},
			want: runconfig.Documents{BOS: runconfig.TokenNone, FIM: runconfig.FIM{Tokens: auto}}},
		{name: "an id", tokenizer: "gpt2", c: runconfig.Documents{BOS: "050256"},
			want: runconfig.Documents{BOS: "50256"}},
		{name: "a text", tokenizer: "gpt2", c: runconfig.Documents{BOS: "<|endoftext|>"},
			want: runconfig.Documents{BOS: "50256"}},
		{name: "no such text", tokenizer: "gpt2", c: runconfig.Documents{BOS: "<s>"},
			refused: `documents.bos: "<s>": tokenizer gpt2 has no such special token`},
		{name: "none of its own", tokenizer: "gpt2", c: runconfig.Documents{BOS: "auto"},
			refused: "documents.bos: tokenizer gpt2 defines no beginning-of-text token"},
		{name: "fim", tokenizer: "cl100k_base", c: fim(auto),
			want: fim(runconfig.FIMTokens{Prefix: "100258", Middle: "100259", Suffix: "100260"})},
		{name: "fim by hand", tokenizer: "cl100k_base",
			c:    fim(runconfig.FIMTokens{Prefix: "<|fim_suffix|>", Middle: "7", Suffix: "<|endoftext|>"}),
			want: fim(runconfig.FIMTokens{Prefix: "100260", Middle: "7", Suffix: "100257"})},
		{name: "no tokens for fim", tokenizer: "gpt2", c: fim(auto),
			refused: "documents.fim.tokens: tokenizer gpt2 has no known fill-in-the-middle tokens"},
		{name: "one token twice", tokenizer: "gpt2", c: fim(runconfig.FIMTokens{Prefix: "7", Middle: "07", Suffix: "8"}),
			refused: "want three different tokens"},
		{name: "no such token for fim", tokenizer: "gpt2",
			c:       fim(runconfig.FIMTokens{Prefix: "7", Middle: "<mid>", Suffix: "8"}),
			refused: `documents.fim.tokens.middle: "<mid>"`},
		{name: "ids without a tokenizer", tokenizer: "none", c: runconfig.Documents{BOS: "3"},
			want: runconfig.Documents{BOS: "3"}},
		{name: "a text without a tokenizer", tokenizer: "none", c: runconfig.Documents{BOS: "<s>"},
			refused: "tokenizer none has no such special token"},
		{name: "auto without a tokenizer", tokenizer: "none", c: runconfig.Documents{BOS: "auto"},
			refused: "tokenizer none defines no beginning-of-text token"},
		{name: "fim without a tokenizer", tokenizer: "none", c: fim(auto),
			refused: "tokenizer none has no known fill-in-the-middle tokens"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := config.Default()
			c.Tokenizer.Name = tt.tokenizer
			if tt.tokenizer == config.TokenizerNone {
				c = settings(t)
			}
			c.Plan.Documents = tt.c
			tokens, err := LoadRunTokenizer(&c, slog.New(slog.DiscardHandler))
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("%v, want %s", err, tt.refused)
				}
				return
			}
			got := c.Plan.Documents
			if err != nil || got.BOS != tt.want.BOS || got.FIM != tt.want.FIM || tokens.Documents.BOS != got.BOS ||
				tokens.Documents.FIM != got.FIM || tokens.Seed != c.Plan.Seed {
				t.Errorf("%+v, %v", got, err)
			}
			if c.Plan.Tokenizer.VocabSize != tokens.VocabSize {
				t.Errorf("the plan knows of %+v", c.Plan.Tokenizer)
			}
		})
	}
}

// contents reads a run to its end. It returns the contents of all steps, and the documents reassembled from their
// pieces.
func contents(t *testing.T, d *Daemon) (steps []int32, labels []int32, documents map[uint64][]int32) {
	t.Helper()
	client, err := flightclient.Open(d.FlightURI(), flightclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Seal(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	documents = map[uint64][]int32{}
	err = client.Read(t.Context(), api.Ticket{Columns: []string{"input_ids", "labels", "documents"}},
		func(b flightclient.Batch) error {
			steps, labels = append(steps, b.InputIDs...), append(labels, b.Labels...)
			for r, row := range b.Documents {
				at := r * b.L
				for _, p := range row {
					whole := documents[p.Sequence]
					if short := int(p.Start+p.Length) - len(whole); short > 0 {
						whole = append(whole, make([]int32, short)...)
					}
					copy(whole[p.Start:], b.InputIDs[at:at+int(p.Length)])
					documents[p.Sequence], at = whole, at+int(p.Length)
				}
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return steps, labels, documents
}

// A run with all transformations delivers identical content when it is read again, from any daemon, and counts the
// documents that it cut or left out.
func TestTransformations_ReplayGivesSameContent(t *testing.T) {
	const pre, mid, suf, bos, end = 100258, 100259, 100260, 100276, 100257
	c := settings(t)
	c.Tokenizer = config.Default().Tokenizer
	c.Tokenizer.Name, c.Tokenizer.SpecialAsText = "cl100k_base", true
	c.Plan.Packing.Buckets, c.Plan.Shuffle.Window = []int{128}, 16
	c.Plan.Documents = runconfig.Documents{BOS: "<|endofprompt|>",
		MaxTokens: runconfig.MaxTokens{At: 60, Do: runconfig.MaxCut},
		FIM: runconfig.FIM{Rate: 0.5, SPMRate: 0.5, Tokens: runconfig.FIMTokens{Prefix: "auto", Middle: "auto",
			Suffix: "auto"}}}
	d := start(t, c)
	var all []stream.Message
	m, err := LoadModel("cl100k_base", c.Tokenizer.Options())
	if err != nil {
		t.Fatal(err)
	}
	encoder := m.NewEncoder()
	texts, lengths := map[uint64]string{}, map[uint64]int{}
	for i := range 300 {
		text := strings.Repeat(fmt.Sprintf("def f%d(x):\n    return x + %d # é日\n", i, i), 1+i%7)
		message := stream.Message{Data: []byte(text)}
		ids := encoder.Encode(nil, []byte(text))
		switch i % 5 {
		case 1:
			message = stream.Message{ContentType: stream.TypeTokens, Tokenizer: m.Fingerprint(),
				Data: stream.AppendTokens(nil, append([]int32{bos}, append(ids, end)...))}
		case 2:
			message = stream.Message{ContentType: stream.TypeTokens, Tokenizer: m.Fingerprint(),
				Data: stream.AppendTokens(nil, ids), Loss: []int32{0, 5, int32(len(ids) - 5)}}
		}
		all = append(all, message)
		texts[uint64(i+1)], lengths[uint64(i+1)] = text, len(ids)
	}
	natstest.Publish(t, d.Store(), all...)
	steps, labels, documents := contents(t, d)
	filled, cut := 0, 0
	for sequence, text := range texts {
		own := documents[sequence]
		if len(own) < 2 || own[0] != bos || slices.Contains(own[1:], bos) {
			t.Fatalf("document %d is %v", sequence, own)
		}
		own = own[1:]
		long := lengths[sequence] > c.Plan.Documents.MaxTokens.At
		if ends := own[len(own)-1] == end; ends == long || slices.Contains(own[:len(own)-1], end) {
			t.Fatalf("document %d of %d tokens: %v", sequence, lengths[sequence], own)
		}
		if long {
			cut++
		} else {
			own = own[:len(own)-1]
		}
		if own[0] == pre {
			filled++
			s, m := slices.Index(own, suf), slices.Index(own, mid)
			own = slices.Concat(own[1:s], own[m+1:], own[s+1:m])
		}
		got, err := m.Decode(nil, own)
		if err != nil || string(got) != text && !long || !strings.HasPrefix(text, strings.TrimRight(string(got), "\ufffd")) ||
			len(got) < 30 {
			t.Fatalf("document %d is %q, %v, want %q", sequence, got, err, text)
		}
	}
	if s := d.Run().Stats(); s.Cut != int64(cut) || cut == 0 || s.Skipped.Total() != 0 || filled < 60 || filled > 180 {
		t.Errorf("%d cut, %d left out, %d filled in, want %d, 0 and half of 240", s.Cut, s.Skipped.Total(), filled, cut)
	}
	if got := get(t, d.http.url()+"/metrics"); !strings.Contains(got,
		fmt.Sprintf(`loaderd_cut_documents_total{run="default"} %d`, cut)) {
		t.Error("the metrics tell of no document that was cut")
	}
	shown, err := d.Run().ViewDocument(t.Context(), 1)
	if err != nil || !slices.Equal(shown.TokenIDs(0, shown.Len()), documents[1]) {
		t.Errorf("document 1 is shown as %+v, %v", shown, err)
	}
	if err := stop(d, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	c.Serve.CheckpointSteps, c.Serve.CacheBytes = 0, 4096 // most documents are read again, singly or in ranges
	d = start(t, c)
	again, labelsAgain, _ := contents(t, d)
	if !slices.Equal(steps, again) || !slices.Equal(labels, labelsAgain) {
		t.Error("the run has other bytes when it is read again")
	}
	if s := d.Run().Stats(); s.Cut != int64(cut) {
		t.Errorf("%d cut, %d before", s.Cut, cut)
	}
	if err := stop(d, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	c.Plan.Documents.FIM.Rate = 0.25
	if _, err := Start(t.Context(), c, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "documents.fim.rate: 0.5 -> 0.25") {
		t.Errorf("started with another share: %v", err)
	}
}

// Documents above the maximum length are left out and counted, for a run with one stream and for each source.
func TestMaxTokens_DropsAndCountsLongDocuments(t *testing.T) {
	c := settings(t)
	c.Plan.Documents.MaxTokens = runconfig.MaxTokens{At: 1000, Do: runconfig.MaxDrop}
	d := start(t, c)
	publishRows(t, d, 3, 1001)
	publishRows(t, d, 5, 1000)
	_, _, documents := contents(t, d)
	if s := d.Run().Stats(); s.Skipped.Count(plan.SkipLong) != 3 || s.Documents != 5 || len(documents) != 5 {
		t.Errorf("%d left out, %d used, %d read", s.Skipped.Count(plan.SkipLong), s.Documents, len(documents))
	}
	if got := get(t, d.http.url()+"/metrics"); !strings.Contains(got, `loaderd_long_documents_total{run="default"} 3`) {
		t.Error("the metrics tell of no document that was left out")
	}
	if shown, err := d.Run().ViewDocument(t.Context(), 1); err != nil || shown.Skip != plan.SkipLong {
		t.Errorf("document 1 is shown as %+v, %v", shown, err)
	}
	if err := stop(d, 20*time.Second); err != nil {
		t.Fatal(err)
	}
}

// Every source has the transformations of the run and its own counts. Its max_tokens includes the tokens that the
// transformations add.
func TestTransformations_PerSource(t *testing.T) {
	c := settings(t)
	c.Plan.Mix = config.Default().Plan.Mix
	c.Plan.Documents = runconfig.Documents{BOS: "99", MaxTokens: runconfig.MaxTokens{At: 50, Do: runconfig.MaxCut}}
	c.Plan.Sources = map[string]mixture.Source{"web": {Weight: 1, Epochs: 1},
		"code": {Weight: 1, Epochs: 1, MaxTokens: 50}}
	c.Plan.Packing.Buckets = []int{128}
	d := start(t, c)
	var all []stream.Message
	for i := range 20 {
		for _, name := range []string{"web", "code"} {
			all = append(all, stream.Message{Subject: "docs." + name, ContentType: stream.TypeTokens, Tokenizer: "f",
				Data: stream.AppendTokens(nil, make([]int32, 40+i))})
		}
	}
	natstest.Publish(t, d.Store(), all...)
	contents(t, d)
	cut, long := map[string]int64{}, map[string]int64{}
	for _, s := range d.Run().Stats().Sources {
		cut[s.Name], long[s.Name] = s.Cut, s.Skipped.Count(plan.SkipLong)
	}
	// Documents of source code with 50 tokens or more have 51 with the added first token.
	if cut["web"] != 9 || long["web"] != 0 || cut["code"] != 0 || long["code"] != 10 {
		t.Errorf("%v cut, %v left out", cut, long)
	}
	got := get(t, d.http.url()+"/metrics")
	for _, want := range []string{`loaderd_source_cut_documents_total{run="default",source="web"} 9`,
		`loaderd_source_left_out_documents_total{run="default",source="code",why="long"} 10`} {
		if !strings.Contains(got, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if err := stop(d, 20*time.Second); err != nil {
		t.Fatal(err)
	}
}

// Tokens that the tokenizer already adds around every text are not added twice, and never end up inside a document.
func TestTransformations_NoDuplicateTokenizerTokens(t *testing.T) {
	vocab, others := map[string]int{}, 0
	for b := range 256 { // such files encode unprintable bytes as other characters
		c := rune(b)
		if b < '!' || b > '~' && b < 0xa1 || b == 0xad {
			c, others = rune(0x100+others), others+1
		}
		vocab[string(c)] = b
	}
	added := func(id int, content string) map[string]any {
		return map[string]any{"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
			"normalized": false, "special": true}
	}
	file := map[string]any{"version": "1.0", "normalizer": nil,
		"added_tokens": []any{added(256, "<s>"), added(257, "</s>"), added(258, "<fim_prefix>"), added(259, "<fim_middle>"),
			added(260, "<fim_suffix>")},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
			"use_regex": true},
		"post_processor": map[string]any{"type": "BertProcessing", "cls": []any{"<s>", 256}, "sep": []any{"</s>", 257}},
		"model":          map[string]any{"type": "BPE", "vocab": vocab, "merges": []any{}}}
	b, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Tokenizer.Name = path
	fim := runconfig.FIM{Rate: 1, Tokens: runconfig.FIMTokens{Prefix: "auto", Middle: "auto", Suffix: "auto"}}
	c.Plan.Documents = runconfig.Documents{BOS: "auto", FIM: fim}
	settled := c
	if _, err := LoadRunTokenizer(&settled, slog.New(slog.DiscardHandler)); err != nil ||
		settled.Plan.Documents.BOS != "256" ||
		settled.Plan.Documents.FIM.Tokens.Suffix != "260" {
		t.Errorf("%+v, %v", settled.Plan.Documents, err)
	}
	c.Tokenizer.AddSpecialTokens = true
	for want, d := range map[string]runconfig.Documents{
		"documents.bos: tokenizer.add_special_tokens adds token 256 before every text": {BOS: "auto"},
		"documents.fim: tokenizer.add_special_tokens adds tokens around every text":    {FIM: fim},
	} {
		c.Plan.Documents = d
		if _, err := LoadRunTokenizer(&c, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
