package loader_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/maintenance"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/packonline"
)

var update = flag.Bool("update", false,
	"write testdata/golden.json anew: plans of equal configurations and documents have changed on purpose")

const goldenFile = "testdata/golden.json"

// golden is the results of one run; the strings are SHA-256 sums.
type golden struct {
	Records    int    `json:"records"`
	Steps      int    `json:"steps"`
	Plan       string `json:"plan"`       // records of the plan log
	Batches    string `json:"batches"`    // tokens and spans of all steps
	Checkpoint string `json:"checkpoint"` // checkpoints requested during the run
	Fork       string `json:"fork"`       // header of a run forked in the middle, and its plan of the rest
	Audit      string `json:"audit"`      // the audit's figures
}

// goldenRuns returns configurations of every packing method with several shapes of steps, atoms and rows.
func goldenRuns() map[string]runconfig.Config {
	runs := map[string]runconfig.Config{}
	for _, method := range packonline.Methods() {
		runs[method] = config(method)
		half := config(method)
		half.Packing.Atom, half.Steps.Last, half.Attention = 0.5, runconfig.LastDrop, runconfig.AttentionRow
		runs[method+"/half a row"] = half
		two := config(method)
		two.Packing.Atom, two.Packing.Holdback, two.Steps.Balance, two.Steps.MaxWait = 2, 0, true, 40
		runs[method+"/two rows"] = two
		if packonline.IsMultiBucket(method) {
			several := config(method)
			several.Packing.Buckets, several.Steps = []int{8, 16, 32}, runconfig.Steps{Rows: 4, Tokens: 64, Backlog: 2,
				MaxWait: 60, Last: runconfig.LastPad}
			runs[method+"/three buckets"] = several
		}
	}
	for _, method := range []string{"bfd-m", "seamless", "bucketllm"} {
		c := config(method)
		c.Packing.Extra, c.Packing.Overlap, c.Packing.PaddingThreshold = 3, 0.3, 0.1
		runs[method+"/with its parameters"] = c
	}
	for _, method := range []string{"bfd", "bucket"} {
		c := config(method)
		c.Steps.Schedule = []runconfig.Phase{{FromTokens: 1000, RampTokens: 2000, Rows: 12}, {FromTokens: 4000, Rows: 8}}
		runs[method+"/schedule"] = c
	}
	for _, method := range []string{"bfd", "bucket", "seamless"} {
		c := config(method)
		c.Steps.Schedule = []runconfig.Phase{{FromTokens: 600, Rows: 4, Buckets: []int{32}}, {FromTokens: 1200, Rows: 8}}
		if packonline.IsMultiBucket(method) {
			c.Steps.Schedule[0].Buckets, c.Steps.Backlog = []int{16, 32}, 1
		}
		runs[method+"/bucket phase"] = c
	}
	for _, retriever := range []string{"repo", "dense"} {
		c := config("splice")
		c.Packing.Splice.Retriever = retriever
		runs["splice/"+retriever] = c
	}
	for name, c := range runs {
		if len(c.Validate()) > 0 {
			delete(runs, name) // decompose supports no atoms below a row
		}
	}
	return runs
}

// TestGolden compares plans, batches, checkpoints, forks and audits of every method with the golden file.
func TestGolden(t *testing.T) {
	want := map[string]golden{}
	if b, err := os.ReadFile(goldenFile); err != nil || json.Unmarshal(b, &want) != nil {
		t.Error("cannot read", goldenFile, err)
	}
	got := map[string]golden{}
	for name, c := range goldenRuns() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { got[name] = goldenRun(t, c) })
			if got[name] != want[name] && !*update {
				t.Errorf("the run is not what it was:\n got %+v\nwant %+v", got[name], want[name])
			}
		})
	}
	if !*update {
		return
	}
	b, err := json.MarshalIndent(got, "", "\t")
	if err == nil {
		err = os.WriteFile(goldenFile, append(b, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// goldenRun makes a run with controls of every kind, each recorded when the planner has reached the last published
// document. So the order of the log's records does not depend on timing.
func goldenRun(t *testing.T, c runconfig.Config) (g golden) {
	w := newFixture(c)
	w.options = backend.Options{Ahead: 1 << 20, CacheBytes: 1 << 20, StallTimeout: 10 * time.Second,
		CheckpointSteps: 1 << 30}
	run, stop := w.start(t)
	lengths := someLengths(5, 360)
	states := sha256.New()
	publish := func(upto int) {
		for w.docs.state().Last < uint64(upto) {
			sequence := w.docs.state().Last + 1
			d := document.Document{ID: sequence, Content: document.Content{Tokens: documentTokens(sequence,
				lengths[sequence-1])}}
			switch {
			case sequence%31 == 0:
				d.Skip, d.Tokens = plan.SkipEmpty, nil
			case sequence%37 == 0:
				d.Skip, d.Tokens = plan.SkipUndecodable, nil
			case sequence%11 == 0:
				d.ID = sequence - 3 // a duplicate
			case sequence%7 == 0:
				d.ID = 0
			}
			w.docs.publish(d)
		}
		settled(t, run, uint64(upto))
		step, err := run.Checkpoint(t.Context())
		must(t, err)
		fmt.Fprintln(states, step)
		state, _ := w.checkpoints.Get(t.Context(), slices.Max(w.checkpoints.names()))
		c, err := planrecord.DecodeCheckpoint(state)
		must(t, err)
		c.Tail.Position-- // without the one term record
		states.Write(c.Encode())
	}
	publish(100)
	_, err := run.Flush(t.Context())
	must(t, err)
	settled(t, run, 100)
	_, err = run.Commit(t.Context(), "trainer", run.Info().Planned/2)
	must(t, err)
	publish(220)
	_, err = run.Commit(t.Context(), "evaluator", run.Info().Planned)
	must(t, err)
	_, err = run.Leave(t.Context(), "evaluator")
	must(t, err)
	publish(360)
	_, err = run.Seal(t.Context())
	must(t, err)
	sum := sha256.New()
	for _, b := range read(t, run, state.RankID{World: 1}, 0, 0) {
		fmt.Fprintln(sum, b.Step, b.Bucket, b.First, b.Rows, tokensOf(t, b), b.Pieces)
		g.Steps++
	}
	must(t, stop())
	decided := decisions(t, w.plan.records)
	g.Records, g.Plan, g.Batches, g.Checkpoint = len(decided), digest(decided...), hex.EncodeToString(sum.Sum(nil)),
		hex.EncodeToString(states.Sum(nil))

	audited, err := maintenance.Audit(t.Context(), backend.Backends{Sources: onlySource{Documents: w.docs}, Plan: w.plan},
		c.Tokenizer, nil)
	must(t, err)
	controls := audited.Controls
	if audited.Controls = nil; len(controls) != 2 || !strings.HasPrefix(controls[0].Description, "flush behind") ||
		!strings.HasPrefix(controls[1].Description, "seal of source 0 behind") {
		t.Errorf("the audit lists the controls %v", controls)
	}
	g.Audit = strings.Replace(fmt.Sprintf("%+v", audited), " Controls:[]", "", 1) // the figures

	fork := newFixture(c)
	fork.docs, fork.options = w.docs, w.options
	fork.config.Seed++
	h, _, err := w.fork(t, uint64(g.Steps/2), "test", fork.config)
	must(t, err)
	must(t, maintenance.CreateFork(t.Context(), fork.beginning(&memLowWatermarks{docs: w.docs}), h))
	run, stop = fork.start(t)
	settled(t, run, 360)
	_, err = run.Seal(t.Context())
	must(t, err)
	settled(t, run, 360)
	eventually(t, func() bool { return run.Info().Ended })
	must(t, stop())
	g.Fork = digest(decisions(t, fork.plan.records)...)
	return g
}

// settled waits until all documents up to a sequence are planned and stored.
func settled(t *testing.T, run *loader.Run, document uint64) {
	t.Helper()
	eventually(t, func() bool {
		_, err := run.Checkpoint(t.Context()) // stored after everything planned before
		s := run.Stats()
		return s.Cursor == document && (err == nil || s.Ended)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// decisions returns a plan's records without term records and run ids. Which daemon led, and when the run began, does
// not affect the plan.
func decisions(t *testing.T, records [][]byte) [][]byte {
	t.Helper()
	records = slices.Clone(records)
	records[0] = zeroID(t, records[0])
	return slices.DeleteFunc(records, func(b []byte) bool {
		e, err := planrecord.Decode(b)
		must(t, err)
		_, is := e.(planrecord.Term)
		return is
	})
}

// zeroID replaces the id in a header, and its parent's, by zeros.
func zeroID(t *testing.T, header []byte) []byte {
	t.Helper()
	e, err := planrecord.Decode(header)
	must(t, err)
	h := e.(planrecord.Header)
	if len(h.ID) != 32 || h.Parent != nil && len(h.Parent.ID) != 32 {
		t.Errorf("run %s has the id %q, its parent %+v", h.Run, h.ID, h.Parent)
	}
	h.ID = strings.Repeat("0", 32)
	if h.Parent != nil {
		h.Parent.ID = h.ID
	}
	return planrecord.Encode(h)
}

// digest returns the SHA-256 sum of records, each with its length.
func digest(records ...[]byte) string {
	sum := sha256.New()
	for _, r := range records {
		fmt.Fprintln(sum, len(r))
		sum.Write(r)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
