// Package statustest checks a status for figures and sentences that contradict each other.
package statustest

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"loaderd/internal/api"
	"loaderd/loader/diagnosis"
)

// contradictions collects what is wrong with a status.
type contradictions []string

func (c *contradictions) add(format string, args ...any) {
	*c = append(*c, fmt.Sprintf(format, args...))
}

// number is a count or a rate.
type number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// within requires that a part is not larger than its whole.
func within[T number](c *contradictions, name string, part, whole T) {
	if !(part >= 0 && part <= whole) {
		c.add("%s: %v of %v", name, part, whole)
	}
}

// Contradictions returns the contradictions in a status. A correct daemon has none at any time.
func Contradictions(s *api.Status) []string {
	var c contradictions
	c.steps(s)
	c.flow(s)
	c.jobs(s)
	c.ranks(s)
	c.sources(s)
	c.shares(s)
	c.sentences(s)
	return c
}

// steps checks that committed and oldest steps do not exceed the planned ones, and planned >= sent >= consumed.
func (c *contradictions) steps(s *api.Status) {
	within(c, "committed steps of those planned", s.Committed, s.Planned)
	within(c, "oldest step of those planned", s.Oldest, s.Planned)
	if (s.Sent == nil) != (s.Consumed == nil) {
		c.add("of sent and consumed steps one is null: %v, %v", s.Sent, s.Consumed)
	} else if s.Sent != nil {
		within(c, "sent steps of those planned", *s.Sent, s.Planned)
		within(c, "consumed steps of those sent", *s.Consumed, *s.Sent)
	}
	if (s.Consumed == nil) && len(s.Jobs) > 0 {
		c.add("%d jobs, and consumed steps are null", len(s.Jobs))
	}
	for i, k := range s.Commits {
		within(c, "committed steps of job "+k.Job, k.Step, s.Planned)
		within(c, "skipped steps of those committed by job "+k.Job, k.Skipped, k.Step)
		if k.Step < s.Committed {
			c.add("job %s has committed %d, all committing jobs %d", k.Job, k.Step, s.Committed)
		}
		if i > 0 && s.Commits[i-1].Job >= k.Job {
			c.add("job %s follows %s", k.Job, s.Commits[i-1].Job)
		}
	}
	if l := s.Length; l != nil && l.Exact && !l.Endless {
		within(c, "planned steps of the exact length", s.Planned, l.Steps)
	}
	if s.EndsIn != nil && (len(s.Jobs) == 0 || *s.EndsIn < 0) {
		c.add("ends in %v s, with %d jobs", *s.EndsIn, len(s.Jobs))
	}
	c.end(s)
}

// end checks the verdict on a run that has ended.
func (c *contradictions) end(s *api.Status) {
	rest, ended := strings.CutPrefix(s.Verdict.Sentence, "Ended at step ")
	if !ended {
		return
	}
	if !s.Ended || strings.ReplaceAll(rest, ",", "") != strconv.FormatUint(s.Planned, 10) {
		c.add("%q: %d steps are planned, ended is %v", s.Verdict.Sentence, s.Planned, s.Ended)
	}
	for _, r := range s.Ranks {
		if r.State == api.StateReading && r.Consumed < s.Planned {
			c.add("%q: rank %d of job %q has consumed %d", s.Verdict.Sentence, r.Rank, r.Job, r.Consumed)
		}
	}
}

// flow checks that no stage exceeds its bound.
func (c *contradictions) flow(s *api.Status) {
	for _, x := range s.Flow {
		whole := x.Limit
		if whole == 0 && x.Unit != "steps" && x.Unit != "documents" {
			whole = math.MaxFloat64 // unbounded
		}
		within(c, "stage "+x.Name, x.Value, whole)
		within(c, "rate of stage "+x.Name, x.Rate, math.MaxFloat64)
	}
	for name, rate := range map[string]float64{"published": s.Rates.Published, "documents": s.Rates.Documents,
		"tokens": s.Rates.Tokens, "rows": s.Rates.Rows,
		"steps": s.Rates.Steps, "read": s.Rates.StepsRead, "undecodable": s.Rates.Undecodable, "bytes": s.Rates.Bytes} {
		within(c, "rate "+name, rate, math.MaxFloat64)
	}
	for _, x := range s.Streams {
		if x.Full && x.FullInSeconds != nil {
			c.add("stream %q is full, and full in %v s", x.Name, *x.FullInSeconds)
		}
	}
}

// jobs checks that no job has more ranks than its world size, or more steps than are planned.
func (c *contradictions) jobs(s *api.Status) {
	for _, r := range s.Resizes {
		if r.JoinedCount+r.MissingCount != r.World || len(r.Joined) > r.JoinedCount || len(r.Missing) > r.MissingCount ||
			r.JoinedCount == 0 || r.MissingCount == 0 {
			c.add("pending resize %+v", r)
		}
	}
	for _, j := range s.Jobs {
		name := fmt.Sprintf("job %q of %d", j.Job, j.World)
		within(c, "present and missing ranks of "+name, j.Present+len(j.Missing), j.World)
		within(c, "least of most steps of "+name, j.MinConsumed, j.MaxConsumed)
		within(c, "steps consumed of those sent of "+name, j.MinConsumed, j.Sent)
		within(c, "steps sent of those planned of "+name, j.Sent, s.Planned)
		within(c, "most steps of those planned of "+name, j.MaxConsumed, s.Planned)
		if !slices.IsSorted(j.Missing) || len(slices.Compact(slices.Clone(j.Missing))) != len(j.Missing) {
			c.add("missing ranks of %s: %v", name, j.Missing)
		}
		for _, n := range j.Missing {
			within(c, "missing rank of "+name, n, j.World-1)
		}
		if (j.State == api.StateReading) != (j.Sentence == "") || j.Failing && j.Sentence == "" {
			c.add("%s is %s, failing %v: %q", name, j.State, j.Failing, j.Sentence)
		}
	}
}

// ranks checks for each process that planned >= sent >= consumed, and that it has one row.
func (c *contradictions) ranks(s *api.Status) {
	within(c, "ranks shown", len(s.Ranks), min(s.RankCount, api.MaxRanks))
	type process struct {
		job               string
		rank, world, peer int
	}
	seen := map[process]bool{}
	for _, r := range s.Ranks {
		name := fmt.Sprintf("rank %d of %d of job %q", r.Rank, r.World, r.Job)
		within(c, "number of "+name, r.Rank, r.World-1)
		within(c, "steps sent to "+name, r.Sent, s.Planned)
		within(c, "steps consumed by "+name, r.Consumed, r.Sent)
		within(c, "steps buffered by "+name, r.Buffered, r.Sent-min(r.Sent, r.Consumed))
		within(c, "median wait of "+name, r.WaitP50, r.WaitP99)
		within(c, "seconds of "+name, r.StateSeconds, math.MaxFloat64)
		within(c, "bytes of "+name, r.Bytes, math.MaxFloat64)
		switch {
		case r.Unit == api.UnitSent && (r.Consumed != r.Sent || r.Buffered != 0), r.Unit != api.UnitSent &&
			r.Unit != api.UnitRead:
			c.add("%s: %d consumed, %d sent, %d buffered in unit %q", name, r.Consumed, r.Sent, r.Buffered, r.Unit)
		case r.Streams == 0 && r.Bytes > 0:
			c.add("%s has no stream, and %v bytes per second", name, r.Bytes)
		case r.Daemon == "" && r.State == api.StateReading:
			c.add("%s reads from no daemon", name)
		}
		i := slices.IndexFunc(s.Jobs, func(j api.JobStatus) bool { return j.Job == r.Job && j.World == r.World })
		if i < 0 {
			c.add("%s is of no job", name)
			continue
		}
		j := s.Jobs[i]
		if r.State == api.StateReading {
			within(c, "least steps of the job of "+name, j.MinConsumed, r.Consumed)
			within(c, "steps consumed by "+name+" of most of its job", r.Consumed, j.MaxConsumed)
			within(c, "lag of "+name, r.Lag, j.MaxConsumed-r.Consumed)
		}
		p := process{r.Job, r.Rank, r.World, r.Peer}
		if seen[p] {
			c.add("%s has two rows", name)
		}
		seen[p] = true
	}
}

// sources checks that emitted tokens do not exceed the taken ones.
func (c *contradictions) sources(s *api.Status) {
	for _, x := range s.Sources {
		within(c, "tokens of source "+x.Name+" in steps", x.Emitted, x.Tokens+s.Packing.Repeated)
		within(c, "undecodable documents of source "+x.Name, x.Undecodable, x.LeftOut)
		within(c, "documents of source "+x.Name+" that are not used", x.LeftOut, x.Documents)
	}
	var letters int64
	for _, x := range s.Dead.Reasons {
		letters += x.Letters
	}
	within(c, "dead letters by reason", letters, s.Dead.Total)
	leads := 0
	for _, d := range s.Daemons {
		if d.IsLeader {
			leads++
		}
		within(c, "seconds of silence of daemon "+d.Name, d.SilentSeconds, math.MaxFloat64)
	}
	if leads > 1 || !slices.ContainsFunc(s.Daemons, func(d api.DaemonStatus) bool { return d.Name == s.Daemon }) {
		c.add("%d daemons lead; %q answers, of %+v", leads, s.Daemon, s.Daemons)
	}
	within(c, "padding", s.Packing.Padding, 1)
	within(c, "split documents", s.Packing.Split, 1)
}

// shares checks that the shares of all sources add up to 1, or that no source has one.
func (c *contradictions) shares(s *api.Status) {
	whole := func(name string, zero bool, of func(api.SourceStatus) *float64) {
		sum, known := 0., 0
		for _, x := range s.Sources {
			if v := of(x); v != nil {
				within(c, name+" share of source "+x.Name, *v, 1)
				sum, known = sum+*v, known+1
			}
		}
		if known > 0 && math.Abs(sum-1) > 1e-6 && !(zero && sum == 0) {
			c.add("%s shares add up to %v", name, sum)
		}
	}
	whole("target", true, func(x api.SourceStatus) *float64 { return &x.Target })
	whole("total", false, func(x api.SourceStatus) *float64 { return x.Share })
	whole("recent", false, func(x api.SourceStatus) *float64 { return x.Recent })
}

// unitsOfSentences are the counted nouns.
const unitsOfSentences = `(step|row|document|rank|token|piece|daemon|source|record|reader)`

var (
	quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)
	plural = regexp.MustCompile(`(^|[^0-9.,])1 ` + unitsOfSentences + `s\b|(^|[^0-9.,])1 ` + unitsOfSentences +
		` (are|have|were)\b`)
	singular  = regexp.MustCompile(`(^|[^0-9.,])(0|[2-9]|[1-9][0-9,]*[0-9]) ` + unitsOfSentences + `( |$)`)
	errorCode = regexp.MustCompile(`\b[A-Z]{2,}(_[A-Z]+)+\b`)
	unquoted  = regexp.MustCompile(`\b(of|for|by) (job|source|job|stream) [^"]`)
)

// sentences checks that numbers agree with their nouns, names are quoted, and no error code is in a sentence.
func (c *contradictions) sentences(s *api.Status) {
	if s.Verdict.Sentence == "" || !slices.Contains([]diagnosis.Health{diagnosis.Running, diagnosis.Waiting,
		diagnosis.Failing}, s.Verdict.Health) {
		c.add("the verdict is %q, %q", s.Verdict.Health, s.Verdict.Sentence)
	}
	sentences := []string{s.Verdict.Sentence, s.Verdict.Detail, s.Verdict.Advice}
	for _, j := range s.Jobs {
		sentences = append(sentences, j.Sentence)
	}
	for _, text := range sentences {
		bare := quoted.ReplaceAllString(text, `"NAME"`)
		if wrong := plural.FindString(bare) + singular.FindString(bare); wrong != "" {
			c.add("%q: the noun disagrees with its number in %q", text, wrong)
		}
		if code := errorCode.FindString(strings.ReplaceAll(bare, `"NAME"`, "")); code != "" {
			c.add("%q has the error code %s", text, code)
		}
		if name := unquoted.FindString(bare); name != "" {
			c.add("%q has a name without quotes behind %q", text, name)
		}
	}
}
