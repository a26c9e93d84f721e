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
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/state"
)

// unexplained returns a wait without any problem: 40 documents are stored and not received.
func unexplained() *wait {
	w := &wait{Evidence: Evidence{Step: 7, Planned: 7, Options: backend.Options{StallTimeout: time.Minute, Ahead: 4}}}
	w.source = document.SourceStatus{Last: 100, Fetched: 60, Delivered: 60}
	w.Report = state.Report{Source: &w.source, SourceAge: time.Hour, IdleTime: time.Minute,
		Connection: &backend.Connection{Up: true}}
	w.Report.PlanStats.Shortage = planner.Shortage{Needed: 10, Packed: 4}
	return w
}

func ago(d time.Duration) time.Time { return time.Now().Add(-d) }

// Every cause needs its evidence. Without any, the cause is unknown and lists the facts.
func TestWait_CauseNeedsEvidence(t *testing.T) {
	notOpen := func(w *wait) { w.Report.Source, w.source = nil, document.SourceStatus{} }
	dry := func(w *wait) {
		w.source = document.SourceStatus{Last: 60, Fetched: 60, Delivered: 60, DrySince: ago(time.Minute)}
	}
	disconnect := func(w *wait) { w.Report.Connection = &backend.Connection{Since: ago(time.Minute), Error: "EOF"} }
	for _, tc := range []struct {
		name   string
		change func(w *wait)
		want   fault.Reason
		part   string // of the message
	}{
		{"nothing", func(*wait) {}, fault.CauseUnknown,
			"the document stream ends at document 100, 60 received, 60 tokenized"},

		{"disk full", func(w *wait) {
			w.Report.Connection = &backend.Connection{Since: ago(time.Minute),
				Storage: &backend.StorageFailure{Path: "/data", Free: 4096, Full: true, Error: "write error"}}
		}, fault.StorageFull, "cannot write to /data, 4.0 KiB free: write error"},
		{"disk full and stream dry", func(w *wait) {
			dry(w)
			w.Report.Connection = &backend.Connection{Since: ago(time.Minute), Storage: &backend.StorageFailure{Path: "/data",
				Full: true}}
		}, fault.StorageFull, ""},
		{"disk fails", func(w *wait) {
			w.Report.Connection = &backend.Connection{Storage: &backend.StorageFailure{Path: "/data", Free: -1,
				Error: "input/output error"}}
		}, fault.StorageDown, "cannot write to /data: input/output error"},
		{"disconnected", disconnect, fault.SourceDown, "EOF"},
		{"connection unknown", func(w *wait) {
			w.Report.Connection = nil
		}, fault.CauseUnknown, "connection to NATS: unknown"},

		{"leader silent", func(w *wait) {
			w.Report.Remote, w.Report.Age = true, 4*time.Second
		}, fault.NotLeading, "for 4s"},
		{"leader silent, disconnected", func(w *wait) {
			w.Report.Remote, w.Report.Age = true, 4*time.Second
			disconnect(w)
		}, fault.NotLeading, "the connection to NATS is down, 60 s: EOF"},
		{"no leader has reported", func(w *wait) {
			notOpen(w)
			w.Report.Remote, w.Report.LeaderUnknown = true, true
		}, fault.NotLeading, "no daemon that leads has reported yet"},
		{"leader elsewhere reports", func(w *wait) {
			w.Report.Remote, w.Report.Age = true, time.Second
		}, fault.CauseUnknown, ""},

		{"append without an answer", func(w *wait) {
			w.Report.AppendTime = 2 * time.Second
		}, fault.PlanLogDown, "not acknowledged"},
		{"append under way", func(w *wait) {
			w.Report.AppendTime = time.Second / 2
		}, fault.CauseUnknown, "an append has taken"},
		{"lease not renewed", func(w *wait) {
			w.Report.LeaseWait = 2 * time.Second
		}, fault.NotLeading, "the lease is not renewed"},
		{"lease being renewed", func(w *wait) { w.Report.LeaseWait = time.Second / 2 }, fault.CauseUnknown, ""},

		{"stream cannot be opened", func(w *wait) {
			notOpen(w)
			w.Report.Opening = &state.Opening{Error: "no responders"}
		}, fault.SourceDown, "no responders"},
		{"stream being opened, disconnected", func(w *wait) {
			notOpen(w)
			w.Report.Opening = &state.Opening{}
			disconnect(w)
		}, fault.SourceDown, "EOF"},
		{"stream being opened", func(w *wait) {
			notOpen(w)
			w.Report.Opening = &state.Opening{}
		}, fault.CauseUnknown, "without an error"},
		{"stream of another source cannot be opened", func(w *wait) {
			w.Report.Opening = &state.Opening{Source: "b", Error: "no responders"}
			w.source.Tokenizing, w.Report.IdleTime = true, time.Second
		}, fault.SourceDown, "the stream of source \"b\" to open"},
		{"stream of another source being opened", func(w *wait) {
			w.Report.Opening = &state.Opening{Source: "b", Since: ago(time.Minute)}
			dry(w)
			w.Report.Replaying = true
		}, fault.CauseUnknown, "the stream of source \"b\" has been opening for 60 s, without an error"},
		{"stream not open", notOpen, fault.CauseUnknown, "the document stream is not open"},
		{"stream lost", func(w *wait) {
			w.source.DownSince, w.source.DownReason = ago(time.Minute), "no heartbeat"
		}, fault.SourceDown, "no heartbeat"},

		{"planning again", func(w *wait) {
			w.Report.Replaying = true
		}, fault.Replaying, "no document has been received or planned for 60 s"},
		{"planning again, not open", func(w *wait) { notOpen(w); w.Report.Replaying = true }, fault.CauseUnknown, ""},
		{"rank behind", func(w *wait) {
			w.blockingReader = &state.ReaderStat{Rank: 1, World: 2, Step: 3}
		}, fault.RankBehind, "no step beyond 3"},
		{"no weight", func(w *wait) {
			w.Report.PlanStats.Idle = true
		}, fault.SourceDry, "no source that has documents left has a weight"},

		{"stream dry", dry, fault.SourceDry, "document 60 was the last"},
		{"stream dry for a second", func(w *wait) {
			dry(w)
			w.source.DrySince, w.Report.IdleTime = ago(time.Second), time.Second
		}, fault.PoolFilling, "documents flow"},
		{"stream dry since it was opened", func(w *wait) {
			dry(w)
			w.source.DrySince, w.Report.SourceAge, w.Report.IdleTime = ago(time.Second), time.Second, time.Second
		}, fault.SourceDry, ""},
		{"source dry and sealed", func(w *wait) {
			dry(w)
			w.Report.PlanStats.Sources = []state.SourceStats{{Status: mixture.Status{Name: "web", Sealed: true}},
				{Status: mixture.Status{Name: "code"}}}
		}, fault.CauseUnknown, `source "web" ends at document 60`},
		{"documents of a dry stream not planned", func(w *wait) {
			dry(w)
			w.source.Delivered = 50
		}, fault.CauseUnknown, "50 tokenized"},

		{"filters reject all", func(w *wait) {
			dry(w)
			filterAll(w, 60)
		}, fault.DocumentsFiltered, `filters rejected all of the last 60 documents (documents.where: tokens > 9)`},
		{"filters reject all that flow", func(w *wait) {
			w.Report.IdleTime, w.Report.PlanStats.Counts.Arrived = time.Second, 5000
			filterAll(w, 1000)
		}, fault.DocumentsFiltered, "the last 1,000 documents"},
		{"filters reject some", func(w *wait) {
			w.Report.IdleTime, w.Report.PlanStats.Counts.Arrived = time.Second, 5000
			filterAll(w, 999)
		}, fault.PoolFilling, "documents flow"},
		{"filters removed since", func(w *wait) {
			dry(w)
			filterAll(w, 60)
			w.Report.PlanStats.Where = ""
		}, fault.SourceDry, ""},
		{"filter rejects a source that flows", func(w *wait) {
			w.Report.IdleTime = time.Second
			filterSource(w)
		}, fault.PoolFilling, "documents flow"},
		{"filter rejects a dry source", func(w *wait) {
			dry(w)
			filterSource(w)
		}, fault.DocumentsFiltered, `all of the 60 documents of source "web" (where of source "web": tokens > 8 || tokens`},
		{"source without a loss", func(w *wait) {
			dry(w)
			maskSource(w, "code", mixture.ShareLossTokens, 60)
		}, fault.SourceDry, `documents of source "web" with a loss, 60 s: no token of the 60 documents of source "web" ` +
			`has a loss, so its share of the tokens with a loss cannot be filled; document 60 was the last`},
		{"source without a loss, shares of tokens", func(w *wait) {
			dry(w)
			maskSource(w, "code", "", 60)
		}, fault.SourceDry, `of source "web" has a loss, so its share of the tokens cannot be filled`},
		{"run without a loss", func(w *wait) {
			dry(w)
			maskSource(w, "", "", 60)
		}, fault.SourceDry, "documents with a loss, 60 s: no token of the 60 documents has a loss, so they fill no step"},
		{"source with some documents without a loss", func(w *wait) {
			dry(w)
			maskSource(w, "code", mixture.ShareLossTokens, 59)
		}, fault.SourceDry, `documents of source "web", 60 s: document 60`},
		{"tokenizer behind", func(w *wait) {
			w.source.Delivered, w.source.Tokenizing = 50, true
		}, fault.TokenizerBehind, "10 documents behind"},
		{"tokenizer not waited for", func(w *wait) { w.source.Delivered = 50 }, fault.CauseUnknown, ""},
		{"documents flow", func(w *wait) {
			w.Report.IdleTime = time.Second
		}, fault.PoolFilling, "10 rows needed, 4 buffered"},
		{"reading begins", func(w *wait) {
			w.Report.SourceAge, w.Report.IdleTime = time.Second, time.Second
		}, fault.PoolFilling, "reading begins, 40 documents stored"},
		{"reading of an epoch begins", func(w *wait) {
			w.Report.SourceAge, w.Report.IdleTime = time.Second, time.Second
			w.source.EpochLeft = 7
		}, fault.PoolFilling, "reading begins, 7 documents stored"},
		{"reading does not begin", func(w *wait) {
			w.Report.SourceAge, w.Report.IdleTime = time.Minute, time.Minute
		}, fault.CauseUnknown, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := unexplained()
				tc.change(w)
				w.source = w.Report.ReaderStatus()
				e := w.cause()
				e.Facts = w.causeFacts(e)
				if e.Reason != tc.want || !strings.Contains(e.Message, tc.part) {
					t.Errorf("cause is %v, want %s with %q", e, tc.want, tc.part)
				}
				if e.Reason != fault.CauseUnknown {
					return
				}
				for _, fact := range []string{"connection", "last_document", "read_document", "step"} {
					if e.Facts[fact] == "" {
						t.Errorf("no fact %s in %v", fact, e)
					}
				}
			})
		})
	}
}

// A pending append counts as a cause after a second, or earlier if readers receive the cause earlier.
func TestWait_PendingAppendIsCauseWithinStallTimeout(t *testing.T) {
	const short = 300 * time.Millisecond
	for stall, want := range map[time.Duration]time.Duration{time.Minute: time.Second, short: short / 2} {
		for _, of := range []func(w *wait) *time.Duration{
			func(w *wait) *time.Duration { return &w.Report.AppendTime },
			func(w *wait) *time.Duration { return &w.Report.LeaseWait },
		} {
			w := unexplained()
			w.Options.StallTimeout = stall
			*of(w) = want
			if e := w.cause(); e.Reason != fault.CauseUnknown {
				t.Errorf("stall %v, %v: %v", stall, want, e)
			}
			if *of(w)++; w.cause().Reason == fault.CauseUnknown {
				t.Errorf("stall %v, longer than %v: no cause", stall, want)
			}
		}
	}
}

// If filters reject all documents, the advice is to change them, not to wait for more documents from object stores. An
// error of these has the first place.
func TestWait_FiltersBeforeFetching(t *testing.T) {
	for _, tt := range []struct {
		filtered  bool
		fix, want string
	}{
		{false, "", "wait: the daemon fetches"},
		{true, "", "loaderd filter"},
		{true, "check the credentials", "check the credentials"},
	} {
		w := unexplained()
		w.source = document.SourceStatus{Last: 60, Fetched: 60, Delivered: 60, DrySince: ago(time.Minute)}
		w.PullStatus = func(string) (string, string, bool) { return "fetching", tt.fix, true }
		if tt.filtered {
			filterAll(w, 60)
		}
		e := w.cause()
		if !strings.Contains(e.Advice, tt.want) || (e.Reason == fault.DocumentsFiltered) != tt.filtered {
			t.Errorf("filters %v, advice of fetching %q: %v", tt.filtered, tt.fix, e)
		}
	}
}

// If no document has a token with a loss, the advice is to publish others, not to wait for more from object stores.
func TestWait_AdviceWithoutLoss(t *testing.T) {
	const marks = `publish documents with a loss (mark what is to be trained on: parts with "loss": true, or loss runs ` +
		`of token ids), or end `
	for other, want := range map[string]string{"": marks + "the run with loaderd seal",
		"code": marks + "this source with loaderd seal web"} {
		w := unexplained()
		w.source = document.SourceStatus{Last: 60, Fetched: 60, Delivered: 60, DrySince: ago(time.Minute)}
		w.PullStatus = func(string) (string, string, bool) { return "fetching", "", true }
		maskSource(w, other, "", 60)
		if e := w.cause(); e.Advice != want {
			t.Errorf("advice %q, want %q", e.Advice, want)
		}
	}
}

// filterAll makes a filter reject the last n documents.
func filterAll(w *wait, n int64) {
	p := &w.Report.PlanStats
	p.Where, p.FilteredInRow, p.Counts.Arrived = "tokens > 9", n, max(p.Counts.Arrived, n)
}

// filterSource makes a filter reject the documents of the next one of two sources.
func filterSource(w *wait) {
	p := &w.Report.PlanStats
	p.Counts.Arrived = 80
	p.Sources = []state.SourceStats{{Status: mixture.Status{Name: "web"}, Where: strings.Repeat("tokens > 8 || ", 99)},
		{Status: mixture.Status{Name: "code"}, Where: "tokens > 7"}}
	p.Sources[0].Arrived = 60
	p.Sources[0].Skipped.Add(plan.SkipFiltered, 60)
}

// maskSource masks all tokens of n of the 60 documents of source web, which is the next one. other is a second source
// if it is not empty.
func maskSource(w *wait, other string, unit mixture.ShareUnit, n int64) {
	p := &w.Report.PlanStats
	p.Counts.Arrived = 1000
	p.Sources = []state.SourceStats{{Status: mixture.Status{Name: "web", Unit: unit}}}
	p.Sources[0].Arrived = 60
	p.Sources[0].Skipped.Add(plan.SkipMasked, n)
	if other != "" {
		p.Sources = append(p.Sources, state.SourceStats{Status: mixture.Status{Name: other, Unit: unit}})
	}
}
