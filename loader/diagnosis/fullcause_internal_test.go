package diagnosis

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// filled returns a wait for documents of a stream with 1,000 of 1,024 KiB used, all of them planned.
func filled(release string) *wait {
	w := unexplained()
	w.Options.Retention = release
	w.source = document.SourceStatus{Last: 60, Fetched: 60, Delivered: 60, DrySince: ago(time.Minute)}
	w.Report.StreamFills = []state.StreamFill{{Name: "DOCS", Bytes: 1000 << 10, MaxBytes: 1 << 20, Configured: 1 << 20,
		Full: true}}
	return w
}

func TestWait_FullStream(t *testing.T) {
	free := int64(3 << 30)
	several := func(w *wait) {
		w.Report.StreamFills = []state.StreamFill{{Source: "code", Name: "DOCS_code", Bytes: 5, MaxBytes: 1 << 20},
			{Source: "web", Name: "DOCS_web", Bytes: 1 << 20, MaxBytes: 1 << 20, Full: true}}
		w.Report.PlanStats.Sources = []state.SourceStats{{Status: mixture.Status{Name: "code"}},
			{Status: mixture.Status{Name: "web"}}}
		w.Report.PlanStats.NextSource = 1
	}
	for _, tc := range []struct {
		name, release string
		change        func(w *wait)
		want          fault.Reason
		sentence, do  string // parts
	}{
		{"keep", backend.RetentionKeep, func(*wait) {}, fault.StreamFull,
			`The document stream "DOCS" is full (1000.0 KiB of 1.0 MiB): producers wait for room, and the run ` +
				`waits for documents, 60 s`,
			"raise stream.max_bytes and restart the daemon, or set serve.retention: purge"},
		{"first step", backend.RetentionPurge, func(w *wait) { w.Planned = 0 }, fault.StreamFull, "",
			"fewer documents than the first step needs"},
		{"purge, no job has committed", backend.RetentionPurge, func(*wait) {}, fault.StreamFull, "",
			"let the trainers commit their checkpoints, none has"},
		{"purge, a job is behind", backend.RetentionPurge, func(w *wait) {
			w.Commits = planrecord.Commits{"train": {Step: 7}, "eval": {Step: 2}}
		}, fault.StreamFull, "",
			`let job "eval" commit, it has committed 2 of 7 steps; if it has ended, remove it (action leave); ` +
				`or raise stream.max_bytes`},
		{"purge, all have committed", backend.RetentionPurge, func(w *wait) {
			w.Commits = planrecord.Commits{"train": {Step: 7}}
		}, fault.StreamFull, "",
			"it must hold the documents of pool and shuffle window"},
		{"remote server", backend.RetentionKeep, func(w *wait) {
			w.Report.StreamFills[0].Configured = 0
		}, fault.StreamFull, "",
			"nats stream edit"},
		{"lowered bound", backend.RetentionKeep, func(w *wait) {
			w.Report.StreamFills[0].Configured, w.Report.StreamFills[0].Free = 64<<30, &free
		}, fault.StreamFull, "", "free space on the disk of the NATS server"},
		{"several sources", backend.RetentionKeep, several, fault.StreamFull,
			`The document stream "DOCS_web" of source "web" is full`, ""},
		{"several sources, another is full", backend.RetentionKeep, func(w *wait) {
			several(w)
			w.Report.PlanStats.NextSource = 0
		}, fault.SourceDry, "Waiting for documents of source", ""},
		{"several sources rest", backend.RetentionKeep, func(w *wait) {
			several(w)
			w.Report.PlanStats.Idle = true
			for i := range w.Report.PlanStats.Sources {
				w.Report.PlanStats.Sources[i].Paused = true
			}
		}, fault.StreamFull, `"DOCS_web" of source "web" is full (1.0 MiB of 1.0 MiB)`, ""},
		{"account", backend.RetentionKeep, func(w *wait) {
			w.Report.StreamFills[0] = state.StreamFill{Name: "DOCS", Bytes: 5, Full: true,
				Account: &state.Quota{Bytes: 1 << 20, MaxBytes: 1 << 20, Full: true}}
		}, fault.StreamFull, `The JetStream account of document stream "DOCS" is full (1.0 MiB of 1.0 MiB)`,
			"raise the storage limit of the JetStream account"},
		{"room", backend.RetentionKeep, func(w *wait) {
			w.Report.StreamFills[0].Full = false
		}, fault.SourceDry, "Waiting for documents", ""},
		{"documents are left", backend.RetentionKeep, func(w *wait) {
			w.source.Delivered, w.source.Tokenizing = 50, true
		}, fault.TokenizerBehind, "", ""},
		{"sealed", backend.RetentionKeep, func(w *wait) {
			w.Report.PlanStats.Sources = []state.SourceStats{{Status: mixture.Status{Sealed: true}}}
		}, fault.CauseUnknown, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := filled(tc.release)
				tc.change(w)
				w.source = w.Report.ReaderStatus()
				for _, e := range []*fault.Error{w.cause(), w.stepCause()} {
					if e.Reason != tc.want || !strings.Contains(e.Brief, tc.sentence) || !strings.Contains(e.Advice, tc.do) {
						t.Errorf("cause is %v, want %s with %q and %q", e, tc.want, tc.sentence, tc.do)
					}
				}
				v := (&judgement{w: w}).stallVerdict(w.stepCause())
				if v.Reason == fault.StreamFull && (v.Health != Failing || v.Bottleneck != LimitDocuments ||
					len(v.Facts) > 16 || v.Facts["max_bytes"] != "1048576") {
					t.Errorf("verdict %+v, want failing with the facts of the stream", v)
				}
			})
		})
	}
}
