package main

import (
	"context"
	"fmt"
	"strings"

	"loaderd/stream"
)

// unreadBy is a run that does not read what was published, in the summary.
type unreadBy struct {
	Run string `json:"run"`
	End uint64 `json:"ends_behind"` // the last document that it reads
}

// audience are the runs over the document stream, by whether they read documents behind a sequence.
type audience struct {
	sealed []unreadBy
	reads  []string
}

// audienceOf asks who reads documents that are stored now, up to sequence last. A producer need not be permitted to ask, and nothing
// depends on the answer: without one there is nobody to tell of.
func audienceOf(ctx context.Context, store *stream.Store, last uint64) (a audience) {
	runs, err := store.Runs(ctx)
	if err != nil {
		return audience{}
	}
	for _, r := range runs {
		if r.Sealed && r.End < last {
			a.sealed = append(a.sealed, unreadBy{r.Run, r.End})
		} else {
			a.reads = append(a.reads, r.Run)
		}
	}
	return a
}

// warning says who does not read what comes now, and what to do; empty when everybody does.
func (a audience) warning() string {
	if len(a.sealed) == 0 {
		return ""
	}
	var b strings.Builder
	for i, r := range a.sealed {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "run %s is sealed behind document %d", r.Run, r.End)
	}
	b.WriteString(": documents published later are not part of it")
	if len(a.reads) > 0 {
		fmt.Fprintf(&b, "; read by %s", strings.Join(a.reads, ", "))
		return b.String()
	}
	b.WriteString(", and no other run reads this stream. A new run (loaderd serve --run NAME) reads it from its first document on; loaderd fork goes on behind a sealed run's last step")
	return b.String()
}

// unreadLine is the summary's line of them.
func unreadLine(runs []unreadBy) string {
	var parts []string
	for _, r := range runs {
		parts = append(parts, fmt.Sprintf("run %s, which ends behind document %d", r.Run, r.End))
	}
	if len(parts) == 0 {
		return ""
	}
	return "not read by " + strings.Join(parts, ", nor by ")
}
