package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/humanize"
	"loaderd/internal/table"
	"loaderd/internal/tui"
	"loaderd/loader/diagnosis"
)

// maxLines is the maximum number of lines of ranks, sources and events.
const maxLines = 12

// NewContent returns the terminal view of a status.
func NewContent(s api.Status) tui.Content {
	p := tui.Content{Title: "loaderd top  " + s.Run, State: s.Daemon, Verdict: s.Verdict.Sentence, Keys: "q leaves"}
	switch s.Verdict.Health {
	case diagnosis.Waiting:
		p.Tone = tui.Warning
	case diagnosis.Failing:
		p.Tone = tui.Critical
	}
	if s.Verdict.Advice != "" {
		p.Lines = append(p.Lines, "-> "+s.Verdict.Advice)
	}
	for _, r := range s.Resizes {
		p.Lines = append(p.Lines, r.Sentence)
	}
	p.Cells = cells(s)
	if x := s.FullestStream(); x != nil {
		stored := api.Stage{Name: "stored", Value: float64(x.Bytes), Limit: float64(x.MaxBytes), Unit: "bytes"}
		p.Bars = append(p.Bars, newBar(stored))
	}
	for _, x := range s.Flow {
		p.Bars = append(p.Bars, newBar(x))
	}
	if len(s.Sources) > 1 {
		t := table.New("SOURCE", TargetColumn(s), "RECENT", "TOKENS", "EPOCH", "STATE")
		for _, x := range s.Sources {
			t.Row(x.Name, fmt.Sprintf("%.2f %%", 100*x.Target), FormatShare(x.Recent), humanize.Short(float64(x.Tokens)),
				fmt.Sprintf("%d of %s", x.Epoch+1, x.Epochs), SourceState(x, s.Time))
		}
		p.Tables = append(p.Tables, tableLines(t))
	}
	if len(s.Ranks) > 0 {
		t := table.New("JOB", "RANK", "STATE", "SENT", "CONSUMED", "LAG", "WAIT P50", "P99", "BYTES/S")
		for _, r := range furthestBehind(s.Ranks) {
			t.Row(r.Job, fmt.Sprintf("%d of %d", r.Rank, r.World), RankState(r), humanize.Count(r.Sent), FormatConsumed(r),
				humanize.Count(r.Lag), FormatWait(r.WaitP50), FormatWait(r.WaitP99), humanize.Bytes(int64(r.Bytes)))
		}
		p.Tables = append(p.Tables, tableLines(t))
	}
	if len(s.Events) > 0 {
		events := []string{"LAST EVENTS"}
		for _, e := range s.Events[:min(5, len(s.Events))] {
			events = append(events, e.Time.Local().Format(time.TimeOnly)+"  "+e.Text)
		}
		p.Tables = append(p.Tables, events)
	}
	return p
}

func cells(s api.Status) []tui.Cell {
	ends := "-"
	switch {
	case s.Ended && (s.Consumed == nil || *s.Consumed == s.Planned):
		ends = "ended"
	case s.EndsIn != nil:
		ends = humanize.Time(time.Duration(*s.EndsIn * float64(time.Second)))
	}
	all := []tui.Cell{
		{Label: "tokens/s", Value: humanize.Short(s.Rates.Tokens)},
		{Label: "documents/s", Value: humanize.Short(s.Rates.Documents)},
		{Label: "padding", Value: fmt.Sprintf("%.2f %%", 100*s.Packing.Padding)},
		{Label: "planned", Value: humanize.Count(s.Planned)}, {Label: "sent", Value: formatSteps(s.Sent)},
		{Label: "consumed", Value: formatSteps(s.Consumed)},
		{Label: "committed", Value: humanize.Count(s.Committed)}, {Label: "ends in", Value: ends},
		{Label: "dead letters", Value: humanize.Count(s.Dead.Total)},
	}
	if x := s.Schedule; x != nil {
		all = append(all, tui.Cell{Label: "phase", Value: fmt.Sprintf("%d of %d", x.Phase, x.PhaseCount-1)},
			tui.Cell{Label: "rows/step", Value: humanize.Range(x.Rows)})
		if len(x.Buckets) > 0 {
			all = append(all, tui.Cell{Label: "tokens/row", Value: humanize.Range(x.Buckets)})
		}
	}
	return all
}

// formatSteps formats a number of steps, "-" if unknown.
func formatSteps(n *uint64) string {
	if n == nil {
		return "-"
	}
	return humanize.Count(*n)
}

func newBar(x api.Stage) tui.Bar {
	l := tui.Bar{Label: x.Name, ShortText: humanize.Short(x.Value), LongText: humanize.Count(int64(x.Value)),
		Highlighted: x.Bottleneck}
	if x.Unit == "bytes" {
		l.LongText, l.ShortText = humanize.Bytes(int64(x.Value)), humanize.Bytes(int64(x.Value))
	}
	if x.Limit > 0 {
		l.Fraction = min(1, x.Value/x.Limit)
		if x.Unit == "bytes" {
			l.LongText += " of " + humanize.Bytes(int64(x.Limit))
		} else {
			l.LongText += " of " + humanize.Count(int64(x.Limit)) + " " + x.Unit
			l.ShortText += "/" + humanize.Short(x.Limit)
		}
	}
	return l
}

// tableLines returns the header of a table and its first lines, at most maxLines of them.
func tableLines(t *table.Table) []string {
	var b strings.Builder
	_ = t.Write(&b) // a strings.Builder does not fail
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	if n := len(lines) - 1; n > maxLines {
		lines = append(lines[:1+maxLines], fmt.Sprintf("and %d more", n-maxLines))
	}
	return lines
}

// furthestBehind sorts ranks: first those that do not read, then by descending lag.
func furthestBehind(ranks []api.RankStatus) []api.RankStatus {
	ranks = slices.Clone(ranks)
	slices.SortStableFunc(ranks, func(a, b api.RankStatus) int { return cmp.Compare(b.Lag, a.Lag) })
	missing := func(r api.RankStatus) bool { return r.State != api.StateReading }
	return append(slices.DeleteFunc(slices.Clone(ranks), func(r api.RankStatus) bool {
		return !missing(r)
	}), slices.DeleteFunc(ranks, missing)...)
}

// RankState formats the state of a rank and its duration: absent 20 s.
func RankState(r api.RankStatus) string {
	if r.State == api.StateReading {
		return r.State
	}
	return r.State + " " + humanize.Time(time.Duration(r.StateSeconds*float64(time.Second)))
}

// FormatConsumed formats the number of steps that a rank has consumed, "-" if its client does not report it.
func FormatConsumed(r api.RankStatus) string {
	if r.Unit == api.UnitSent {
		return "-"
	}
	return humanize.Count(r.Consumed)
}

// FormatWait formats the time in seconds that a rank waited.
func FormatWait(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(100 * time.Microsecond).String()
}

// TargetColumn returns the heading of target shares.
func TargetColumn(s api.Status) string {
	if s.ShareUnit.CountsLoss() {
		return "LOSS TARGET"
	}
	return "TARGET"
}

// FormatShare formats a share of the tokens, "-" before the first.
func FormatShare(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f %%", 100**v)
}

// SourceState returns the state of a source in one or two words.
func SourceState(x api.SourceStatus, now time.Time) string {
	switch {
	case x.Removed:
		return "removed"
	case x.Exhausted:
		return "exhausted"
	case x.DownSince != nil:
		return "out of reach, " + humanize.Time(now.Sub(*x.DownSince))
	case x.Paused:
		return "paused"
	case x.Sealed:
		return "sealed"
	case x.DrySince != nil && x.Next > x.Stored:
		return "dry, " + humanize.Time(now.Sub(*x.DrySince))
	}
	return "open"
}
