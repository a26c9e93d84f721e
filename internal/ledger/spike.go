package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"loaderd/internal/flightclient"
	"loaderd/internal/humanize"
	"loaderd/internal/table"
	"loaderd/loader/document"
)

const (
	// compareSteps is the number of steps before a spike that it is compared with.
	compareSteps = 1000
	// maxSpikeSteps is the maximum number of steps of a spike, whose documents are kept in memory.
	maxSpikeSteps = 10_000
	// shownDocuments is the number of documents that a Spike names.
	shownDocuments = 10
)

// Spike compares the content of some steps with that of the preceding ones. Shares are of tokens, 0 to 1.
type Spike struct {
	Run    string `json:"run"`
	Begin  uint64 `json:"begin"`  // first step
	End    uint64 `json:"end"`    // first step after them
	Before uint64 `json:"before"` // first step of the preceding ones, which end at Begin
	// Sources are ordered by the change of their share, the largest first.
	Sources []SourceShare `json:"sources"`
	Lengths Lengths       `json:"lengths"`
	// LengthsBefore are those of the preceding steps.
	LengthsBefore Lengths `json:"lengths_before"`
	// Repeats is the number of documents that begin more than once in the steps, or there and in the preceding ones.
	Repeats int `json:"repeats"`
	// Repeated are the documents that begin most often, and Largest those with the most tokens.
	Repeated []DocumentShare `json:"repeated"`
	Largest  []DocumentShare `json:"largest"`
}

// SourceShare is a source's share of the tokens.
type SourceShare struct {
	Source      string  `json:"source"`
	Share       float64 `json:"share"`
	ShareBefore float64 `json:"share_before"`
}

// Lengths are percentiles of the lengths of spans, in tokens. A document in one piece is one span.
type Lengths struct {
	P50 int32 `json:"p50"`
	P90 int32 `json:"p90"`
	Max int32 `json:"max"`
}

// DocumentShare is a document of the steps; for a message with several documents, the message.
type DocumentShare struct {
	Source   string `json:"source,omitempty"`
	Sequence uint64 `json:"sequence"`
	ID       string `json:"id,omitempty"`
	Path     string `json:"path,omitempty"`
	Tokens   int64  `json:"tokens"`
	Begins   int    `json:"begins"`        // how often it begins in the steps
	Earlier  int    `json:"begins_before"` // how often it begins in the preceding steps
}

// ReadSpike reads the steps from begin to end, without end, and compares them with at most 1,000 preceding steps that
// the plan still has.
func ReadSpike(ctx context.Context, c *flightclient.Client, run string, begin, end uint64) (Spike, error) {
	info, err := c.Info(ctx, run)
	if err != nil {
		return Spike{}, err
	}
	before := begin - min(begin, compareSteps)
	before = min(begin, max(before, info.Oldest))
	steps := newSpikeReader()
	if err := readSteps(ctx, c, run, begin, end, true, steps.add); err != nil {
		return Spike{}, err
	}
	if err := readSteps(ctx, c, run, before, begin, false, steps.addBefore); err != nil {
		return Spike{}, err
	}
	out := steps.spike()
	out.Run, out.Begin, out.End, out.Before = info.Run, begin, end, before
	return out, nil
}

// CheckSpike returns an error unless begin to end are steps that ReadSpike reads.
func CheckSpike(begin, end uint64) error {
	if begin >= end || end-begin > maxSpikeSteps {
		return fmt.Errorf("steps %d:%d: want the first step and the one after the last, at most %d steps", begin, end,
			maxSpikeSteps)
	}
	return nil
}

// spikeReader counts the content of steps. Of the preceding steps it keeps counts only, except the lengths of spans.
type spikeReader struct {
	documents       map[messageKey]*DocumentShare
	infos           map[messageKey]document.Info
	sources, before map[string]int64 // tokens
	lengths         map[int32]int    // number of spans
	lengthsBefore   map[int32]int
}

func newSpikeReader() *spikeReader {
	return &spikeReader{map[messageKey]*DocumentShare{}, map[messageKey]document.Info{}, map[string]int64{},
		map[string]int64{}, map[int32]int{}, map[int32]int{}}
}

func (r *spikeReader) add(s Step) {
	maps.Copy(r.infos, s.origins())
	for _, p := range slices.Concat(s.Rows...) {
		key := messageKey{p.Source, p.Sequence}
		d := r.documents[key]
		if d == nil {
			d = &DocumentShare{Source: p.Source, Sequence: p.Sequence}
			r.documents[key] = d
		}
		d.Tokens += int64(p.Length)
		if p.Start == 0 {
			d.Begins++
		}
		r.sources[p.Source] += int64(p.Length)
		r.lengths[p.Length]++
	}
}

func (r *spikeReader) addBefore(s Step) {
	for _, p := range slices.Concat(s.Rows...) {
		if d := r.documents[messageKey{p.Source, p.Sequence}]; d != nil && p.Start == 0 {
			d.Earlier++
		}
		r.before[p.Source] += int64(p.Length)
		r.lengthsBefore[p.Length]++
	}
}

func (r *spikeReader) spike() Spike {
	out := Spike{Lengths: percentiles(r.lengths), LengthsBefore: percentiles(r.lengthsBefore)}
	total, totalBefore := sum(r.sources), sum(r.before)
	names := maps.Clone(r.sources)
	maps.Copy(names, r.before)
	for name := range names {
		out.Sources = append(out.Sources, SourceShare{name, share(r.sources[name], total),
			share(r.before[name], totalBefore)})
	}
	change := func(s SourceShare) float64 { return max(s.Share-s.ShareBefore, s.ShareBefore-s.Share) }
	slices.SortFunc(out.Sources, func(a, b SourceShare) int {
		return cmp.Or(cmp.Compare(change(b), change(a)), cmp.Compare(a.Source, b.Source))
	})
	var all, repeated []DocumentShare
	for key, d := range r.documents {
		d.ID, d.Path = r.infos[key].ID, r.infos[key].Path
		all = append(all, *d)
		if d.Begins > 0 && d.Begins+d.Earlier > 1 {
			repeated = append(repeated, *d)
		}
	}
	out.Repeats = len(repeated)
	out.Repeated = largest(repeated, func(d DocumentShare) int64 { return int64(d.Begins + d.Earlier) })
	out.Largest = largest(all, func(d DocumentShare) int64 { return d.Tokens })
	return out
}

// largest returns the documents with the highest values.
func largest(documents []DocumentShare, value func(DocumentShare) int64) []DocumentShare {
	slices.SortFunc(documents, func(a, b DocumentShare) int {
		return cmp.Or(cmp.Compare(value(b), value(a)), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Sequence, b.Sequence))
	})
	return documents[:min(len(documents), shownDocuments)]
}

func percentiles(lengths map[int32]int) (out Lengths) {
	total, seen := 0, 0
	for _, n := range lengths {
		total += n
	}
	for _, length := range slices.Sorted(maps.Keys(lengths)) {
		if 2*seen < total {
			out.P50 = length
		}
		if 10*seen < 9*total {
			out.P90 = length
		}
		seen, out.Max = seen+lengths[length], length
	}
	return out
}

func sum(tokens map[string]int64) (total int64) {
	for _, n := range tokens {
		total += n
	}
	return total
}

func share(part, of int64) float64 { return float64(part) / float64(max(of, 1)) }

// Write writes the comparison as "table" or "json".
func (s Spike) Write(w io.Writer, format string) error {
	switch format {
	case "json":
		return json.NewEncoder(w).Encode(s)
	case "table":
		return s.writeTables(w)
	}
	return errors.New("want table or json")
}

func (s Spike) writeTables(w io.Writer) error {
	percent := func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }
	fmt.Fprintf(w, "run %s, steps %d to %d, compared with %s before\n\n", s.Run, s.Begin, s.End-1,
		humanize.Things(int(s.Begin-s.Before), "step"))
	sources := table.New("SOURCE", "SHARE", "BEFORE", "CHANGE")
	for _, x := range s.Sources {
		sources.Row(cmp.Or(x.Source, "documents"), percent(x.Share), percent(x.ShareBefore),
			fmt.Sprintf("%+.1f", 100*(x.Share-x.ShareBefore)))
	}
	lengths := table.New("SPAN TOKENS", "MEDIAN", "P90", "MAX")
	for _, x := range []struct {
		name string
		Lengths
	}{{"these steps", s.Lengths}, {"before", s.LengthsBefore}} {
		lengths.Row(x.name, humanize.Count(x.P50), humanize.Count(x.P90), humanize.Count(x.Max))
	}
	documents := func(title string, of []DocumentShare) *table.Table {
		t := table.New(title, "TOKENS", "BEGINS", "BEFORE", "ID", "PATH")
		for _, d := range of {
			t.Row(messageKey{d.Source, d.Sequence}.String(), humanize.Count(d.Tokens), humanize.Count(d.Begins),
				humanize.Count(d.Earlier), d.ID, d.Path)
		}
		return t
	}
	for _, t := range []*table.Table{sources, lengths, documents("LARGEST", s.Largest),
		documents(fmt.Sprintf("REPEATED (%s)", humanize.Count(s.Repeats)), s.Repeated)} {
		if t.IsEmpty() {
			continue
		}
		if err := t.Write(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	return nil
}
