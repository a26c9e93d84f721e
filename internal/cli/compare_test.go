package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/cli/command"
	"loaderd/internal/natstest"
	"loaderd/internal/report"
	"loaderd/stream"
)

// streamState returns all state of a server, including streams and consumers.
func streamState(t *testing.T, js jetstream.JetStream) (state []string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	streams := js.ListStreams(ctx)
	for info := range streams.Info() {
		state = append(state, fmt.Sprintf("%s: %d messages, %d to %d, %+v", info.Config.Name, info.State.Msgs,
			info.State.FirstSeq, info.State.LastSeq, info.Config))
	}
	if err := streams.Err(); err != nil {
		t.Fatal(err)
	}
	return state
}

// TestCompare_ReadsLengthsFromStream reads lengths from a server: text is tokenized, token ids are counted, invalid
// messages are skipped, and the server's state does not change.
func TestCompare_ReadsLengthsFromStream(t *testing.T) {
	s := natstest.Start(t)
	ctx := context.WithoutCancel(t.Context())
	if _, err := s.Store().EnsureDocuments(ctx); err != nil {
		t.Fatal(err)
	}
	js := s.Store().JetStream()
	for _, m := range []stream.Message{
		{Data: []byte("purged")},
		{Data: []byte("hello world")}, // 2 tokens and the end-of-document token
		{Data: []byte(`{"text":"hello"}`), ContentType: stream.TypeJSON},
		{Data: []byte(`{"text":`), ContentType: stream.TypeJSON}, // undecodable
		{Data: nil}, // empty
		{Data: []byte(strings.Repeat(" hello", 100))},
		{Data: []byte("hello world again")},
	} {
		m.Subject = "docs.test"
		if _, err := js.PublishMsg(ctx, m.NATS()); err != nil {
			t.Fatal(err)
		}
	}
	docs, err := js.Stream(ctx, "DOCS")
	if err != nil {
		t.Fatal(err)
	}
	if err := docs.Purge(ctx, jetstream.WithPurgeSequence(2)); err != nil {
		t.Fatal(err)
	}
	before := streamState(t, js)
	for _, x := range []struct {
		name  string
		args  []string
		want  [3]int // documents, tokens, longest
		input string
		rows  []int
		pool  int
	}{
		{"all", []string{"--daemon", natstest.URL(s.Store())}, [3]int{4, 3 + 2 + 101 + 4, 101},
			"stream DOCS, sequences 2 to 7",
			[]int{1024, 2048, 4096, 8192, 16384}, 4096},
		{"the first", []string{"--daemon", natstest.URL(s.Store()), "-n", "2"}, [3]int{2, 5, 3},
			"stream DOCS, sequences 2 to 3",
			[]int{1024, 2048, 4096, 8192, 16384}, 4096},
		{"as the daemon packs", []string{"-c",
			writeFile(t, "c.yaml", []byte("packing: {buckets: [64], pool: 7}\nstream: {dir: \""+s.Config().Dir+"\", listen: \""+
				s.Config().Listen+"\"}\n"))},
			[3]int{4, 110, 101}, "stream DOCS, sequences 2 to 7", []int{64}, 7},
		{"other than the daemon packs", []string{"--length", "32", "-c",
			writeFile(t, "c.yaml", []byte("packing: {buckets: [64], pool: 7}\n")),
			"--daemon", natstest.URL(s.Store())},
			[3]int{4, 110, 101}, "stream DOCS, sequences 2 to 7", []int{32}, 7},
		{"one of the daemon's phases", []string{"--buckets", "32", "-c", writeFile(t, "c.yaml", []byte(phases)),
			"--daemon", natstest.URL(s.Store())},
			[3]int{4, 110, 101}, "stream DOCS, sequences 2 to 7", []int{32}, 4096},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := t.TempDir()
			var out, stderr bytes.Buffer
			args := append([]string{"compare", "--from-stream", "--out", dir, "--methods", "concat,bfd"}, x.args...)
			if code := Run(t.Context(), args, nil, &out, &stderr); code != command.ExitOK {
				t.Fatalf("exit %d: %s", code, &stderr)
			}
			r := readReport(t, dir)
			if have := [3]int{r.Lengths.Documents, int(r.Lengths.Tokens), int(r.Lengths.Max)}; have != x.want ||
				r.Input != x.input || r.Pool != x.pool ||
				!cmp.Equal(r.Rows, x.rows) {
				t.Errorf("%v of %s into %v, pool %d; want %+v", have, r.Input, r.Rows, r.Pool, x)
			}
			if strings.Contains(r.Command, "nats") {
				t.Errorf("the report names the server: %s", r.Command)
			}
		})
	}
	if diff := cmp.Diff(before, streamState(t, js)); diff != "" {
		t.Errorf("reading changed the server, -before +after:\n%s", diff)
	}
}

// phases is a configuration that changes the row lengths.
const phases = "packing: {buckets: [64]}\nsteps: {rows: 4, schedule: [{from_step: 9, rows: 4, buckets: [32]}]}\n"

func TestCompare_RefusesInvalidStreamRequests(t *testing.T) {
	s := natstest.Start(t)
	url := natstest.URL(s.Store())
	compare := func(args ...string) (int, string) {
		var stderr bytes.Buffer
		code := Run(t.Context(), append([]string{"compare", "--from-stream", "--out", t.TempDir()}, args...), nil,
			&bytes.Buffer{}, &stderr)
		return code, stderr.String()
	}
	for name, x := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no stream": {[]string{"--daemon", url}, command.ExitFailed,
			"stream DOCS: there is no such document stream at " + s.Store().ClientURL()},
		"no such tokenizer": {[]string{"--daemon", url, "--tokenizer", "gpt7"}, command.ExitUsage,
			"tokenizer.name: \"gpt7\""},
		"a bad setting":     {[]string{"--daemon", url, "--set", "packing.pool=0"}, command.ExitUsage, "packing.pool"},
		"no such file":      {[]string{"-c", filepath.Join(t.TempDir(), "absent.yaml")}, command.ExitFailed, "absent.yaml"},
		"a negative number": {[]string{"--daemon", url, "-n", "-1"}, command.ExitUsage, "--limit: -1: want 0 (all) or more"},
		"a column as well":  {[]string{"--daemon", url, "--column", "n"}, command.ExitUsage, "--column: want a file"},
		"row lengths by phase": {[]string{"--daemon", url, "-c", writeFile(t, "c.yaml", []byte(phases))}, command.ExitUsage,
			"steps.schedule[0].buckets: [32]: all rows here have the same lengths: pass those of one phase with --length"},
	} {
		if code, said := compare(x.args...); code != x.code || !strings.Contains(said, x.want) {
			t.Errorf("%s: exit %d, %s; want %s", name, code, said, x.want)
		}
	}
	if have := streamState(t, s.Store().JetStream()); len(have) > 0 {
		t.Errorf("streams were made: %v", have)
	}
	if _, err := s.Store().EnsureDocuments(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, said := compare("--daemon", url); code != command.ExitFailed ||
		!strings.Contains(said, "read stream DOCS: it holds no documents yet") {
		t.Errorf("without documents: exit %d, %s", code, said)
	}
}

// readReport reads the report that compare has written to a folder.
func readReport(t *testing.T, dir string) (r report.Report) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "compare.json"))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The documents of several sources are compared as a run mixes them, and the printed settings are a valid
// configuration.
func TestCompare_MixesSourcesOfTheStream(t *testing.T) {
	s := natstest.Start(t)
	sources := map[string]int{"code": 900, "web": 300}
	for name, documents := range sources {
		of := s.Store().Source(name, len(sources))
		if _, err := of.EnsureDocuments(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range documents {
			m := stream.Message{Subject: "docs." + name, Data: []byte(strings.Repeat(" hello", 1+i%50))}
			if _, err := s.Store().JetStream().PublishMsg(t.Context(), m.NATS()); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	config := writeFile(t, "c.yaml", []byte("packing: {buckets: [32, 64]}\n"+
		"sources: {code: {weight: 1}, web: {weight: 3}}\nmix: {end: first}\n"))
	var out, stderr bytes.Buffer
	if code := Run(t.Context(), []string{"compare", "--from-stream", "--out", dir, "-c", config, "--daemon",
		natstest.URL(s.Store())}, nil, &out, &stderr); code != command.ExitOK {
		t.Fatalf("exit %d: %s", code, &stderr)
	}
	r := readReport(t, dir)
	// web ends first: 300 documents, and a third as many tokens of code.
	if r.Lengths.Documents < 350 || r.Lengths.Documents > 450 || len(r.Results[0].Sources) != 2 {
		t.Errorf("%d documents of %d sources", r.Lengths.Documents, len(r.Results[0].Sources))
	}
	_, settings, found := strings.Cut(out.String(), "\npacking:\n")
	settings, _, _ = strings.Cut("packing:\n"+settings, "\n\n")
	pasted := writeFile(t, "pasted.yaml", []byte(settings))
	var printed bytes.Buffer
	code := Run(t.Context(), []string{"serve", "-c", pasted, "--print-config"}, nil, &printed, &stderr)
	if !found || code != command.ExitOK || !strings.Contains(printed.String(), "method: "+r.Best) {
		t.Errorf("the settings %s: exit %d, %s", settings, code, &stderr)
	}
}

// compareAsServed checks that without a configuration compare uses the run's row lengths, unless flags override them.
func (s *site) compareAsServed(t *testing.T) {
	for _, x := range []struct {
		args []string
		rows []int
		pool int
	}{
		{nil, []int{128}, 64},
		{[]string{"--pool", "32"}, []int{128}, 32},
		{[]string{"--length", "256"}, []int{256}, 64},
	} {
		dir := t.TempDir()
		t.Setenv("LOADERD_STREAM__DIR", s.dir) // the folder that holds the token
		var out, stderr bytes.Buffer
		args := append([]string{"compare", "--from-stream", "--daemon", "nats://" + s.nats, "--methods", "concat", "--limit",
			"40", "--out", dir}, x.args...)
		if code := Run(t.Context(), args, nil, &out, &stderr); code != command.ExitOK ||
			!strings.Contains(stderr.String(), "those of run whole") {
			t.Fatalf("%v: exit status %d: %s", x.args, code, &stderr)
		}
		r := readReport(t, dir)
		if !cmp.Equal(r.Rows, x.rows) || r.Pool != x.pool {
			t.Errorf("%v: rows of %v, pool %d, want %v and %d", x.args, r.Rows, r.Pool, x.rows, x.pool)
		}
	}
}

// Without a configuration, compare rejects a run that changes its row lengths.
func TestCompare_RejectsPhasesOfServedRun(t *testing.T) {
	s := newSite(t)
	stop := s.serve("--set", "steps.schedule=[{from_step: 1000, rows: 4, buckets: [512]}]")
	s.does("publish", corpusFolder(t, map[string]string{"a.txt": "a document"}))
	s.does("seal")                         // the plan then has its header
	t.Setenv("LOADERD_STREAM__DIR", s.dir) // the folder that holds the token
	var stderr bytes.Buffer
	code := Run(t.Context(), []string{"compare", "--from-stream", "--daemon", "nats://" + s.nats, "--out", t.TempDir()},
		nil, &bytes.Buffer{}, &stderr)
	if code != command.ExitUsage || !strings.Contains(stderr.String(), "steps.schedule[0].buckets: [512]: all rows here") {
		t.Errorf("exit status %d: %s", code, &stderr)
	}
	stop()
}

// The bound of documents per row is that of the configuration. Shares of tokens with a loss are rejected, because
// lengths have no masks.
func TestCompare_UsesConfiguredBoundAndRejectsLossShares(t *testing.T) {
	lengths := writeFile(t, "lengths", []byte(strings.Repeat("10\n", 60)))
	compare := func(config string, args ...string) (report.Report, int, string) {
		dir := t.TempDir()
		var stderr bytes.Buffer
		code := Run(t.Context(), append([]string{"compare", "--out", dir, "--length", "100", "--source", "a=" + lengths,
			"--source", "b=" + lengths, "-c", writeFile(t, "c.yaml", []byte(config))}, args...), nil, &bytes.Buffer{}, &stderr)
		if code != command.ExitOK {
			return report.Report{}, code, stderr.String()
		}
		return readReport(t, dir), code, ""
	}
	const sources = "sources: {a: {weight: 1}, b: {weight: 1}}\n"
	for bound, rows := range map[int]int64{0: 12, 1: 120, 4: 30} {
		r, code, stderr := compare(sources+fmt.Sprintf("packing: {max_documents_per_row: %d}\n", bound), "--methods", "bfd")
		if code != command.ExitOK || r.Results[0].Sequences != rows {
			t.Errorf("at most %d documents per row: %+v, %s; want %d rows", bound, r.Results, stderr, rows)
		}
	}
	if _, code, stderr := compare(sources+"packing: {max_documents_per_row: 2}\n", "--methods", "seamless"); code !=
		command.ExitUsage || !strings.Contains(stderr, "max_documents_per_row") {
		t.Errorf("a method without the bound: exit %d, %s", code, stderr)
	}
	if _, code, stderr := compare(sources + "mix: {share: loss_tokens}\n"); code != command.ExitUsage ||
		!strings.Contains(stderr, "mix.share: loss_tokens: want tokens") {
		t.Errorf("shares of tokens with a loss: exit %d, %s", code, stderr)
	}
}
