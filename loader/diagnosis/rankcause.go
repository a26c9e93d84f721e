package diagnosis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"loaderd/internal/humanize"
	"loaderd/loader/census"
	"loaderd/loader/fault"
)

// RankCause converts a finding of the census into the cause of a wait.
func RankCause(f *census.Finding) *fault.Error {
	waited := humanize.Time(f.Age)
	sentence := fmt.Sprintf("%s %s not consumed step %d for %s", rankNames(f), haveVerb(f), f.Step, waited)
	switch {
	case f.NeverConnected:
		sentence = fmt.Sprintf("%s %s not connected, %s", rankNames(f), haveVerb(f), waited)
	case f.AllSilent:
		sentence = fmt.Sprintf("No rank of job %q reports, %s: all %d hold step %d", f.Job, waited, f.Count, f.Step)
	}
	detail, do := "", fmt.Sprintf("look at the process of %s; the others continue when it does, or when the job "+
		"restarts with another world size", rankLocation(f))
	switch {
	case f.NeverConnected:
		do = fmt.Sprintf("start that rank, or start the job with a world size of %d", f.World-f.Count)
	case f.AllSilent:
		detail, do = "their streams are open, and their clients have stopped to report",
			"look whether the job was stopped, or its machines are out of reach"
	default:
		detail = describeRankState(f)
	}
	if f.DuplicateRank != nil {
		sentence += fmt.Sprintf("; several processes read as rank %d", *f.DuplicateRank)
		do = "give every process a rank that no other has"
	}
	facts := map[string]string{"job": f.Job, "rank": JoinRanks(f.Ranks), "world": strconv.Itoa(f.World),
		"step":          strconv.FormatUint(f.Step, 10),
		"since_seconds": strconv.FormatInt(int64(f.Age.Seconds()), 10), "state": string(f.State)}
	return stallError(fault.RankMissing, strings.ToUpper(sentence[:1])+sentence[1:], detail, do, facts)
}

// describeRankState describes the state of a finding's ranks that do not consume a step.
func describeRankState(f *census.Finding) string {
	several := f.Count > 1
	switch f.State {
	case census.Absent:
		return map[bool]string{false: "it is not connected", true: "they are not connected"}[several]
	case census.Silent:
		return map[bool]string{false: "its process does not answer", true: "their processes do not answer"}[several]
	case census.Stuck:
		return map[bool]string{false: "it holds", true: "they hold"}[several] +
			" the step, and other ranks have asked for a later one"
	case census.Left:
		return map[bool]string{false: "its client was closed", true: "their clients were closed"}[several] +
			", and other ranks have asked for a later step"
	}
	return ""
}

// describeFinding describes the ranks of a finding within the sentence of a run that continues.
func describeFinding(f *census.Finding) string {
	is, waited := "is", humanize.Time(f.Age)
	if f.Count > 1 {
		is = "are"
	}
	switch {
	case f.AllSilent:
		return fmt.Sprintf("no rank of job %q reports, %s", f.Job, waited)
	case f.State == census.Absent:
		return fmt.Sprintf("%s %s not connected, %s", rankNames(f), is, waited)
	case f.State == census.Silent:
		return fmt.Sprintf("%s %s silent, %s", rankNames(f), is, waited)
	case f.State == census.Left:
		return fmt.Sprintf("%s %s left", rankNames(f), haveVerb(f))
	}
	return fmt.Sprintf("%s %s held step %d for %s", rankNames(f), haveVerb(f), f.Step, waited)
}

// rankNames names the ranks of a finding: rank 3 of 4 of job "pretrain".
func rankNames(f *census.Finding) string {
	return fmt.Sprintf("%s of %d of job %q", NameRanks(f.Ranks, f.Count), f.World, f.Job)
}

// NameRanks names the first ones of count ranks, for example: rank 3, or ranks 2, 3 and 4 more.
func NameRanks(first []int, count int) string {
	text := "rank "
	if count > 1 {
		text = "ranks "
	}
	text += JoinRanks(first)
	if more := count - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// JoinRanks returns a list of ranks as text.
func JoinRanks(ranks []int) string {
	words := make([]string, len(ranks))
	for i, n := range ranks {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ", ")
}

func haveVerb(f *census.Finding) string {
	if f.Count > 1 {
		return "have"
	}
	return "has"
}

// rankLocation returns the location of a finding's first rank: its address, or the daemon that served it.
func rankLocation(f *census.Finding) string {
	where := fmt.Sprintf("rank %d", f.Ranks[0])
	if r := f.Rank; r != nil && r.Address != "" {
		where += " at " + r.Address
	} else if r != nil && r.Daemon != "" {
		where += ", which daemon " + r.Daemon + " served"
	}
	return where
}

// worstFinding returns the worst finding of all jobs, and whether that job waits for a step that is not planned; nil if
// none exists.
func (w *wait) worstFinding() (worst *census.Finding, waits bool) {
	for _, j := range w.Ranks.Jobs {
		if f := j.Finding; f != nil && (worst == nil || f.Level > worst.Level) {
			worst, waits = f, w.isJobWaiting(j)
		}
	}
	return worst, waits
}

// checkMissingRank checks whether the reader that holds back the plan belongs to a job with missing ranks.
func (w *wait) checkMissingRank() *fault.Error {
	if w.blockingReader == nil || w.Report.Replaying {
		return nil
	}
	for _, j := range w.Ranks.Jobs {
		if f := j.Finding; f != nil && f.Level == census.Critical &&
			j.Key == (census.Key{Job: w.blockingReader.Job, World: w.blockingReader.World}) {
			return RankCause(f)
		}
	}
	return nil
}

// hasWaitingTrainer reports whether a trainer waits for a step that is not planned. For a client that does not report,
// the state of its stream decides.
func (w *wait) hasWaitingTrainer() bool {
	return len(w.Ranks.Jobs) == 0 && w.Demand.HasWaiting(w.Planned) || slices.ContainsFunc(w.Ranks.Jobs, w.isJobWaiting)
}

// isJobWaiting implements waits for one job.
func (w *wait) isJobWaiting(j census.Job) bool {
	for _, r := range j.Ranks {
		if r.Starving && r.State == census.Reading || !r.Reports && r.Streams > 0 && w.Demand.HasWaiting(w.Planned) {
			return true
		}
	}
	return false
}
