package runcmd

import (
	"io"
	"testing"

	"loaderd/internal/goldentest"
	"loaderd/loader/maintenance"
	"loaderd/loader/planrecord"
)

// TestAuditAndRepair_GoldenOutput compares the output of audit and repair with golden files.
func TestAuditAndRepair_GoldenOutput(t *testing.T) {
	seen := maintenance.AuditResult{Documents: 12_000, Steps: 300, Planned: 301, Tokens: 9_876_543, Emitted: 9_000_000,
		Waiting: 876_000, Dropped: 600, Repeated: 57,
		Padding: 1234}
	goldentest.Compare(t, "list/audited.txt", func(w io.Writer) error { return writeAudited(w, "pretrain", seen) })
	seen.Ended = true
	seen.Controls = []maintenance.ControlRecord{{Record: 57, Description: planrecord.Flush{Arrival: 120}.String()},
		{Record: 310, Description: planrecord.SealSource{Arrival: 11_000, Requester: "alice", Last: 12_000}.String()}}
	goldentest.Compare(t, "list/audited-ended.txt", func(w io.Writer) error { return writeAudited(w, "pretrain", seen) })
	for name, d := range map[string]maintenance.Damage{
		"whole": {Run: "pretrain", Records: 1002, Steps: 1000},
		"same": {Run: "pretrain", Records: 1002, Steps: 1000, Cause: "record 1003: bad checksum", FormerRecords: 1200,
			FormerSteps: 1195},
		"unknown": {Run: "pretrain", Records: 2, Steps: 0, Cause: "it is cut", UnreadableRecords: 3,
			LostControls:  []maintenance.LostControl{{Description: "a seal", Record: 9}, {Description: "a commit"}},
			FormerRecords: 12, FormerSteps: 7},
	} {
		goldentest.Compare(t, "list/damage-"+name+".txt", func(w io.Writer) error { writeDamage(w, d); return nil })
	}
}
