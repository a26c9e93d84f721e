package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"loaderd/internal/api"
	"loaderd/internal/cli/command"
	"loaderd/internal/flightclient"
	"loaderd/internal/ledger"
	"loaderd/internal/natstest"
	"loaderd/loader/document"
)

// site is a data folder and the addresses of the daemons that serve it.
type site struct {
	t            *testing.T
	dir          string
	flight, nats string
}

func newSite(t *testing.T) *site {
	return &site{t, t.TempDir(), natstest.FreeAddress(t), natstest.FreeAddress(t)}
}

// loaderd runs a command, with the site's configuration if the command accepts one.
func (s *site) loaderd(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	name, n := args[0], 1
	if name == "run" {
		name, n = "run "+args[1], 2
	}
	switch name {
	case "serve", "run fork", "run audit", "run repair":
		args = slices.Concat(args[:n], s.settings(), args[n:])
	case "cluster":
	case "run list", "run delete", "dlq":
		if slices.Contains(args, "--daemon") {
			break
		}
		args = append(args, "--daemon", s.dir, "--set", "stream.listen="+s.nats)
	default:
		if !slices.Contains(args, "--daemon") {
			args = append(args, "--daemon", s.dir)
		}
	}
	var out, errs bytes.Buffer
	code = Run(s.t.Context(), args, nil, &out, &errs)
	return code, out.String(), errs.String()
}

// does runs loaderd with a command that must succeed.
func (s *site) does(args ...string) string {
	s.t.Helper()
	code, stdout, stderr := s.loaderd(args...)
	if code != command.ExitOK {
		s.t.Fatalf("%v: exit status %d: %s", args, code, stderr)
	}
	return stdout
}

func (s *site) settings() []string {
	var out []string
	for _, x := range []string{"stream.dir=" + s.dir, "flight.listen=" + s.flight,
		"stream.listen=" + s.nats, "stream.max_bytes=1GiB", "stream.plan_bytes=64MiB",
		"stream.dead_letter_bytes=64MiB",
		"http.listen=127.0.0.1:0",
		"packing.buckets=[128]", "packing.pool=64", "packing.max_age=256", "shuffle.window=8", "steps.rows=4"} {
		out = append(out, "--set", x)
	}
	return out
}

// serve runs a daemon until the returned function is called.
func (s *site) serve(args ...string) (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	said := &notifyingWriter{part: "msg=ready", found: make(chan struct{})}
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, append(append([]string{"serve"}, s.settings()...), args...), nil, &bytes.Buffer{}, said)
	}()
	select {
	case <-said.found:
	case code := <-ended:
		cancel()
		s.t.Fatalf("serve %v: exit status %d: %s", args, code, said.said.String())
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if code := <-ended; code != command.ExitOK {
			s.t.Errorf("serve %v: exit status %d: %s", args, code, said.said.String())
		}
	}
	s.t.Cleanup(stop)
	return stop
}

// read returns all steps of the served run, with the default columns and those in more.
func (s *site) read(more ...string) (out []flightclient.Batch) {
	s.t.Helper()
	client, err := flightclient.Open("grpc://"+s.flight, flightclient.Options{DataDir: s.dir})
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	err = client.Read(s.t.Context(), api.Ticket{Columns: append([]string{"input_ids", "segment_ids", "documents"},
		more...)}, func(b flightclient.Batch) error {
		out = append(out, b)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// tokensOf returns the tokens in batches, each with its document, in no particular order.
func tokensOf(batches []flightclient.Batch) (out []string) {
	for _, b := range batches {
		for i, row := range b.Documents {
			at := i * b.L
			for _, p := range row {
				for k := range int(p.Length) {
					out = append(out, fmt.Sprint(p.Sequence, "/", int(p.Start)+k, "=", b.InputIDs[at+k]))
				}
				at += int(p.Length)
			}
		}
	}
	slices.Sort(out)
	return out
}

// An audit uses the run's method of relating documents, regardless of the method in its own configuration.
func TestAudit_UsesSimilarityMethodOfRun(t *testing.T) {
	s := newSite(t)
	stop := s.serve("--run", "related", "--set", "packing.method=splice")
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("%03d.txt", i)] = strings.Repeat(fmt.Sprintf("topic%d word%d ", i%5, i*31%97), 4+i*7%23)
	}
	s.does("publish", "--source", "files", corpusFolder(t, files))
	s.does("seal")
	whole := s.read()
	stop()
	if said := s.does("run", "audit", "--run", "related"); !strings.Contains(said,
		fmt.Sprintf("the replay of all %d steps equals the log", len(whole))) {
		t.Errorf("output of audit: %s", said)
	}
}

// A sealed run of 120 documents can be audited and inspected. A fork of it holds the documents that its first steps
// did not use.
func TestRuns_AuditInspectAndFork(t *testing.T) {
	s := newSite(t)
	stop := s.serve("--run", "whole")
	files := map[string]string{}
	for i := range 120 {
		files[fmt.Sprintf("%03d.txt", i)] = strings.Repeat(fmt.Sprintf("This is document %d of a run. ", i), 1+i*7%23)
	}
	s.does("publish", "--source", "files", corpusFolder(t, files))
	s.does("seal")
	whole := s.read()
	if len(whole) < 8 {
		t.Fatalf("%d steps", len(whole))
	}
	t.Run("compare", s.compareAsServed)
	t.Run("full disk", s.fullDisk)
	t.Run("ledger", func(t *testing.T) { s.ledger(t, whole) })
	t.Run("text", func(t *testing.T) { s.ledgerText(t, files) })
	t.Run("audit", func(t *testing.T) {
		if said := s.does("run", "audit", "--run", "whole"); !strings.Contains(said,
			fmt.Sprintf("the replay of all %d steps equals the log", len(whole))) ||
			!strings.Contains(said, "has ended") {
			t.Errorf("output of audit while a daemon serves: %s", said)
		}
	})
	const at = 3
	said := s.does("run", "fork", "--run", "whole", "--step", fmt.Sprint(at), "--new", "rest", "--set",
		"packing.buckets=[256]",
		"--set", "steps.rows=2")
	for _, part := range []string{"run rest starts at step 3 of run whole", "packing.buckets", "steps.rows"} {
		if !strings.Contains(said, part) {
			t.Errorf("output of fork lacks %q: %s", part, said)
		}
	}
	for _, refused := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"run", "fork", "--run", "whole", "--step", "3", "--new", "rest"}, command.ExitFailed,
			"choose another name"},
		{[]string{"run", "fork", "--run", "whole", "--step", "100000", "--new", "far"}, command.ExitFailed,
			"not planned yet"},
		{[]string{"run", "fork", "--run", "whole", "--step", "3", "--new", "whole"}, command.ExitUsage,
			"want a name other than"},
		{[]string{"run", "fork", "--run", "absent", "--step", "3", "--new", "far"}, command.ExitFailed, "absent"},
		{[]string{"run", "audit", "--run", "absent"}, command.ExitFailed, "absent"},
		{[]string{"ledger", "--step", "100000"}, command.ExitFailed, "ended before step 100000"},
		{[]string{"ledger", "--spike", "100000:100001"}, command.ExitFailed, "ended before step 100000"},
		{[]string{"ledger", "--spike", "5:5"}, command.ExitUsage, "the first step and the one after the last"},
		{[]string{"ledger", "--spike", "5"}, command.ExitUsage, "want A:B"},
		{[]string{"ledger", "--spike", "1:2", "--format", "arrow"}, command.ExitUsage, "want table or json"},
		{[]string{"ledger", "--run", "rest", "--step", "0"}, command.ExitFailed, "whole"},
	} {
		if code, stdout, stderr := s.loaderd(refused.args...); code != refused.code ||
			!strings.Contains(stderr, refused.want) || stdout != "" {
			t.Errorf("%v: exit status %d, %q, want %d and %q", refused.args, code, stderr, refused.code, refused.want)
		}
	}
	stop()

	stop = s.serve("--run", "rest", "--set", "packing.buckets=[256]", "--set", "steps.rows=2")
	s.does("seal", "--run", "rest")
	rest := s.read()
	if rest[0].L != 256 || rest[0].Rows != 2 {
		t.Errorf("the fork has %d rows of %d", rest[0].Rows, rest[0].L)
	}
	if have, want := tokensOf(append(slices.Clone(whole[:at]), rest...)), tokensOf(whole); !slices.Equal(have, want) {
		t.Errorf("the fork and the steps before it have %d tokens, want the run's %d", len(have), len(want))
	}
	stop()

	if said := s.does("run", "audit", "--run", "rest", "--json"); !json.Valid([]byte(said)) ||
		!strings.Contains(said, `"ended":true`) {
		t.Errorf("output of audit of the fork: %s", said)
	}
}

// ledger compares the output of the ledger, in each format, with the batches that were read.
func (s *site) ledger(t *testing.T, whole []flightclient.Batch) {
	const step = 2
	var page ledger.Step
	if err := json.Unmarshal([]byte(s.does("ledger", "--step", fmt.Sprint(step), "--documents", "--format", "json")),
		&page); err != nil {
		t.Fatal(err)
	}
	paths := map[uint64]string{}
	for _, d := range page.Documents {
		paths[d.Sequence] = d.Path
		if d.Subject != "docs.files" || d.ID == "" {
			t.Errorf("document %+v", d)
		}
	}
	var want []string // one line per piece
	for i, row := range whole[step].Documents {
		for _, p := range row {
			if paths[p.Sequence] == "" {
				t.Errorf("document %d has no path", p.Sequence)
			}
			want = append(want, fmt.Sprint(step, 128, i, p.Sequence, p.Start, p.Length, "docs.files", paths[p.Sequence]))
		}
	}
	if have := stepLines(page); !slices.Equal(have, want) {
		t.Errorf("json: %v, want %v", have, want)
	}
	for format, decode := range map[string]func(*testing.T, string) []string{"arrow": fromArrow, "parquet": fromParquet} {
		have := decode(t, s.does("ledger", "--step", fmt.Sprint(step), "--documents", "--format", format))
		if !slices.Equal(have, want) {
			t.Errorf("%s: %v, want %v", format, have, want)
		}
	}
	if compared := s.does("ledger", "--spike", "2:3"); !strings.Contains(compared,
		"run whole, steps 2 to 2, compared with 2 steps before") || !strings.Contains(compared, "LARGEST") {
		t.Errorf("compared steps:\n%s", compared)
	}
	var spike ledger.Spike
	if err := json.Unmarshal([]byte(s.does("ledger", "--spike", "2:5", "--format", "json")), &spike); err != nil {
		t.Fatal(err)
	}
	tokens, most, longestBefore := map[uint64]int64{}, int64(0), int32(0)
	for i, b := range whole[:5] {
		for _, p := range slices.Concat(b.Documents...) {
			if i < 2 {
				longestBefore = max(longestBefore, p.Length)
				continue
			}
			tokens[p.Sequence] += int64(p.Length)
			most = max(most, tokens[p.Sequence])
		}
	}
	if spike.Before != 0 || spike.Largest[0].Tokens != most || spike.LengthsBefore.Max != longestBefore {
		t.Errorf("steps 2 to 4 have a document of %d tokens, and those before a span of %d: %+v", most, longestBefore, spike)
	}
	table := s.does("ledger", "--step", fmt.Sprint(step), "--documents")
	if !strings.Contains(table, "run whole step 2: 4 rows of 128 tokens") ||
		strings.Count(table, "docs.files") != len(paths) {
		t.Errorf("table: %s", table)
	}
	if bare := s.does("ledger", "--step", fmt.Sprint(step)); strings.Contains(bare, "docs.files") {
		t.Errorf("table without --documents: %s", bare)
	}

	sought := whole[step].Documents[0][0].Sequence
	want = nil
	for i, b := range whole {
		for row, pieces := range b.Documents {
			for _, p := range pieces {
				if p.Sequence == sought {
					want = append(want, fmt.Sprint(i, 128, row, sought, p.Start, p.Length, "", ""))
				}
			}
		}
	}
	id := page.Documents[slices.IndexFunc(page.Documents, func(d document.Info) bool { return d.Sequence == sought })].ID
	for _, how := range [][]string{{"--find", id}, {"--sequence", fmt.Sprint(sought)}} {
		args := append([]string{"ledger"}, how...)
		var found []api.FoundRow
		if err := json.Unmarshal([]byte(s.does(append(args, "--format", "json")...)), &found); err != nil {
			t.Fatal(err)
		}
		for format, have := range map[string][]string{
			"json":    foundLines(found),
			"arrow":   fromArrow(t, s.does(append(args, "--format", "arrow")...)),
			"parquet": fromParquet(t, s.does(append(args, "--format", "parquet")...)),
		} {
			if !slices.Equal(have, want) {
				t.Errorf("%v in %s: %v, want %v", how, format, have, want)
			}
		}
		if table := s.does(args...); strings.Count(table, "\n") != len(found)+1 {
			t.Errorf("%v: %s", how, table)
		}
	}
	if none := s.does("ledger", "--find", "never published"); !strings.Contains(none, "no step of the plan holds") {
		t.Errorf("a document that does not exist: %s", none)
	}
	if code, _, stderr := s.loaderd("ledger", "--step", "0", "--format", "xml"); code != command.ExitUsage ||
		!strings.Contains(stderr, "parquet") {
		t.Errorf("an unknown format: exit status %d: %s", code, stderr)
	}
}

// pieceLine returns the compared fields of a piece.
func pieceLine(step uint64, bucket, row int, p api.Piece, subject, path string) string {
	return fmt.Sprint(step, bucket, row, p.Sequence, p.Start, p.Length, subject, path)
}

func stepLines(s ledger.Step) (out []string) {
	from := map[uint64]document.Info{}
	for _, d := range s.Documents {
		from[d.Sequence] = d
	}
	for i, row := range s.Rows {
		for _, p := range row {
			out = append(out, pieceLine(s.Index, s.Bucket, i, p.Piece, from[p.Sequence].Subject, from[p.Sequence].Path))
		}
	}
	return out
}

func foundLines(found []api.FoundRow) (out []string) {
	for _, f := range found {
		for _, p := range f.Pieces {
			out = append(out, pieceLine(f.Step, f.Bucket, f.Row, p, "", ""))
		}
	}
	return out
}

func fromArrow(t *testing.T, data string) []string {
	t.Helper()
	r, err := ipc.NewReader(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	return fromRecords(t, r)
}

func fromParquet(t *testing.T, data string) []string {
	t.Helper()
	f, err := file.NewParquetReader(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	table, err := p.ReadTable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	r := array.NewTableReader(table, -1)
	defer r.Release()
	return fromRecords(t, r)
}

func fromRecords(t *testing.T, r array.RecordReader) (out []string) {
	t.Helper()
	for r.Next() {
		rec := r.Record()
		column := func(name string) arrow.Array { return rec.Column(rec.Schema().FieldIndices(name)[0]) }
		number := func(name string, i int) int { return int(column(name).(*array.Int32).Value(i)) }
		text := func(name string, i int) string { return column(name).(*array.String).Value(i) }
		for i := range int(rec.NumRows()) {
			p := api.Piece{Sequence: column("sequence").(*array.Uint64).Value(i), Start: int32(number("start", i)),
				Length: int32(number("length", i))}
			out = append(out, pieceLine(column("step").(*array.Uint64).Value(i), number("bucket", i), number("row", i), p,
				text("subject", i), text("path", i)))
		}
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	return out
}

// Opening an existing stream with other subjects fails with two remedies, and both work.
func TestServe_RefusesOtherSubjectsOfStream(t *testing.T) {
	s := newSite(t)
	dir := corpusFolder(t, map[string]string{"a.jsonl": jsonLines(40)})
	first := s.serve()
	s.reported("default") // its plan names a source docs
	first()
	code, _, stderr := s.loaderd("serve", "--set", "stream.subject=texts")
	for _, part := range []string{"subjects is [docs.>], want [texts.>]", "set stream.subject to docs, as it was",
		"stream.name, run"} {
		if code != command.ExitFailed || !strings.Contains(stderr, part) {
			t.Errorf("exit status %d, output lacks %q: %s", code, part, stderr)
		}
	}
	stop := s.serve("--set", "stream.subject=docs")
	s.does("publish", dir)
	if _, _, stderr := s.loaderd("publish", "--subject", "texts", dir); !strings.Contains(stderr,
		"set --subject to docs, as it was") {
		t.Errorf("publish to other subjects: %s", stderr)
	}
	stop()
	stop = s.serve("--set", "stream.subject=texts", "--set", "stream.name=TEXTS", "--run", "texts")
	s.does("publish", "--stream", "TEXTS", "--subject", "texts", dir)
	s.does("seal")
	if steps := s.read(); len(steps) == 0 {
		t.Error("the run over the other stream has no steps")
	}
	stop()
}
