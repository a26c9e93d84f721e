package cli

import (
	"errors"
	"io"
	"testing"

	"loaderd/internal/goldentest"
	"loaderd/internal/publishing"
	"loaderd/loader"
	"loaderd/loader/plan"
)

// What a publish says in the end.
func TestPublishSummaryGolden(t *testing.T) {
	all := publishing.Summary{Server: "nats://127.0.0.1:4222", Stream: "DOCS", Subject: "docs.web", Inputs: 9, InputsComplete: 8, Documents: 1234,
		Bytes: 5_678_901, Duplicates: 21,
		Already: 300, Skipped: map[string]int64{"empty": 1, "bad record": 2, "hidden": 3}, LastSequence: 99_999, Seconds: 2.5, WaitedSeconds: 0.75,
		Repeated: &publishing.Repeats{Documents: 20, Sequence: 17, Input: "/data/a.jsonl", Path: "a.jsonl"},
		UnreadBy: []publishing.SealedRun{{Run: "one", End: 5}, {Run: "two", End: 7}}, NoText: errors.New("a.json: no field")}
	for name, s := range map[string]publishing.Summary{
		"all": all,
		"one": {Subject: "docs.files", Inputs: 1, InputsComplete: 1, Documents: 1, Bytes: 1023, Seconds: 0.001, LastSequence: 1,
			Skipped: map[string]int64{"bad record": 1}, Runs: []publishing.RunIntake{{Run: "default", Read: 1, Filling: true}}},
		"again": {Subject: "docs.files", Inputs: 1, InputsComplete: 1, Already: 1, Skipped: map[string]int64{}},
		"interrupted": {Subject: "docs.files", Inputs: 2, Interrupted: true, Error: "interrupted", Seconds: 3,
			Repeated: &publishing.Repeats{Documents: 1, Sequence: 2, Path: "-"}},
	} {
		t.Run(name, func(t *testing.T) {
			goldentest.Compare(t, "publish/"+name+".txt", func(w io.Writer) error { return writePublished(w, s, false) })
			goldentest.Compare(t, "publish/"+name+".json", func(w io.Writer) error { return writePublished(w, s, true) })
		})
	}
}

// What audit and repair say.
func TestRunsGolden(t *testing.T) {
	seen := loader.Audited{Documents: 12_000, Steps: 300, Planned: 301, Tokens: 9_876_543, Emitted: 9_000_000, Waiting: 876_000, Dropped: 600, Repeated: 57,
		Padding: 1234}
	goldentest.Compare(t, "runs/audited.txt", func(w io.Writer) error { return writeAudited(w, "pretrain", seen) })
	seen.Ended = true
	seen.Controls = []loader.Recorded{{Record: 57, What: plan.Drain{At: 120}.String()}, {Record: 310, What: plan.Seal{At: 12_000, By: "alice"}.String()}}
	goldentest.Compare(t, "runs/audited-ended.txt", func(w io.Writer) error { return writeAudited(w, "pretrain", seen) })
	for name, d := range map[string]loader.Damage{
		"whole": {Run: "pretrain", Records: 1002, Steps: 1000},
		"same":  {Run: "pretrain", Records: 1002, Steps: 1000, Why: "record 1003: bad checksum", OnceRecords: 1200, OnceSteps: 1195},
		"unknown": {Run: "pretrain", Records: 2, Steps: 0, Why: "it is cut", Unknown: 3, Lost: []loader.Lost{{What: "a seal", Record: 9}, {What: "a commit"}},
			OnceRecords: 12, OnceSteps: 7},
	} {
		goldentest.Compare(t, "runs/damage-"+name+".txt", func(w io.Writer) error { writeDamage(w, d); return nil })
	}
}
