package publishcmd

import (
	"errors"
	"io"
	"testing"

	"loaderd/internal/goldentest"
	"loaderd/internal/publishing"
	"loaderd/loader/plan"
)

// TestPublishSummary_GoldenOutput compares the summaries of publishes with golden files.
func TestPublishSummary_GoldenOutput(t *testing.T) {
	all := publishing.Summary{Server: "nats://127.0.0.1:4222", Stream: "DOCS", Subject: "docs.web", Inputs: 9,
		InputsComplete: 8, Documents: 1234,
		Bytes: 5_678_901, Duplicates: 21,
		AlreadyStored: 300, Skipped: map[string]int64{"empty": 1, "bad record": 2, "hidden": 3}, LastSequence: 99_999,
		Seconds:       2.5,
		WaitedSeconds: 0.75,
		Repeated:      &publishing.Repeats{Documents: 20, Sequence: 17, Input: "/data/a.jsonl", Path: "a.jsonl"},
		UnreadBy:      []publishing.SealedRun{{Run: "one", End: 5}, {Run: "two", End: 7}},
		NoText:        errors.New("a.json: no field")}
	for name, s := range map[string]publishing.Summary{
		"all": all,
		"one": {Subject: "docs.files", Inputs: 1, InputsComplete: 1, Documents: 1, Bytes: 1023, Seconds: 0.001,
			LastSequence: 1,
			Skipped:      map[string]int64{"bad record": 1},
			Runs:         []publishing.RunIntake{{Run: "default", Read: 1, Filling: true}}},
		"again": {Subject: "docs.files", Inputs: 1, InputsComplete: 1, AlreadyStored: 1, Skipped: map[string]int64{}},
		"interrupted": {Subject: "docs.files", Inputs: 2, Interrupted: true, Error: "interrupted", Seconds: 3,
			Repeated: &publishing.Repeats{Documents: 1, Sequence: 2, Path: "-"}},
	} {
		t.Run(name, func(t *testing.T) {
			goldentest.Compare(t, "publish/"+name+".txt", func(w io.Writer) error { return writePublished(w, s, false) })
			goldentest.Compare(t, "publish/"+name+".json", func(w io.Writer) error { return writePublished(w, s, true) })
		})
	}
}

func TestIntakeLine_ListsSkippedDocuments(t *testing.T) {
	var skipped plan.Skips
	skipped.Add(plan.SkipUndecodable, 2)
	skipped.Add(plan.SkipLong, 1)
	line := intakeLine(publishing.RunIntake{Run: "a", Read: 4, Skipped: skipped, Unread: 3})
	if want := "run a read 4 documents (of all producers) during this publish and skipped 3: " +
		"2 undecodable, 1 above max_tokens; not read yet: 3 documents"; line != want {
		t.Error(line)
	}
}
