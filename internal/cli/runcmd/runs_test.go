package runcmd

import (
	"io"
	"testing"

	"loaderd/internal/goldentest"
	"loaderd/loader/maintenance"
	"loaderd/loader/planrecord"
)

// TestRunsGolden compares the output of audit and repair with golden files.
func TestRunsGolden(t *testing.T) {
	seen := maintenance.Audited{Documents: 12_000, Steps: 300, Planned: 301, Tokens: 9_876_543, Emitted: 9_000_000,
		Waiting: 876_000, Dropped: 600, Repeated: 57,
		Padding: 1234}
	goldentest.Compare(t, "runs/audited.txt", func(w io.Writer) error { return writeAudited(w, "pretrain", seen) })
	seen.Ended = true
	seen.Controls = []maintenance.Recorded{{Record: 57, What: planrecord.Drain{At: 120}.String()},
		{Record: 310, What: planrecord.SealSource{At: 11_000, By: "alice", Last: 12_000}.String()}}
	goldentest.Compare(t, "runs/audited-ended.txt", func(w io.Writer) error { return writeAudited(w, "pretrain", seen) })
	for name, d := range map[string]maintenance.Damage{
		"whole": {Run: "pretrain", Records: 1002, Steps: 1000},
		"same": {Run: "pretrain", Records: 1002, Steps: 1000, Why: "record 1003: bad checksum", OnceRecords: 1200,
			OnceSteps: 1195},
		"unknown": {Run: "pretrain", Records: 2, Steps: 0, Why: "it is cut", Unknown: 3,
			Lost:        []maintenance.Lost{{What: "a seal", Record: 9}, {What: "a commit"}},
			OnceRecords: 12, OnceSteps: 7},
	} {
		goldentest.Compare(t, "runs/damage-"+name+".txt", func(w io.Writer) error { writeDamage(w, d); return nil })
	}
}
