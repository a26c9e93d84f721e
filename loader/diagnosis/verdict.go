package diagnosis

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"loaderd/internal/humanize"
	"loaderd/loader/census"
	"loaderd/loader/fault"
)

// Health is the state of a run in one word.
type Health string

// Health values, the best first.
const (
	Running Health = "running" // steps are planned, or the run has ended normally
	// waits for documents, ranks or another daemon, which arrive automatically or must be supplied
	Waiting Health = "waiting"
	Failing Health = "failing" // a component is broken
)

// Limit values name the bottleneck of a run: a stage between the producers and the ranks.
const (
	LimitDocuments = "published" // documents are not published faster
	LimitTokenizer = "tokenized" // documents wait to be tokenized
	LimitPlan      = "ahead"     // steps wait to be stored
	LimitRanks     = "read"      // ranks request no further steps
)

// Verdict describes the state of a run in one sentence. The web page, loaderd status and the errors of waiting
// readers use the same sentence.
type Verdict struct {
	Health     Health            `json:"health"`
	Sentence   string            `json:"sentence"`
	Detail     string            `json:"detail,omitempty"` // additional information
	Advice     string            `json:"do,omitempty"`
	Reason     fault.Reason      `json:"reason,omitempty"` // reason in the error of a waiting reader
	Bottleneck string            `json:"limits,omitempty"` // bottleneck
	Facts      map[string]string `json:"facts,omitempty"`
}

// Line returns the sentence with the advice.
func (v Verdict) Line() string {
	if v.Advice == "" {
		return v.Sentence
	}
	return v.Sentence + ": " + v.Advice
}

const (
	// idleAfter is the minimum time without a request for a step after which the run waits for ranks. A training step
	// may take long.
	idleAfter = time.Minute
	// takeoverTimeout is the maximum time until another daemon leads.
	takeoverTimeout = 15 * time.Second
	// minLag is how many steps a rank must lag behind the furthest one before it is named.
	minLag = 4
)

// VerdictInput is the input of a verdict in addition to the evidence for the next step.
type VerdictInput struct {
	At          time.Time
	Ended       bool  // all steps are planned
	Failed      error // why this process stores no further step, although the run has not ended
	RateSampler *RateSampler
	BufferedJob string  // a job whose ranks report but have no streams; empty without one
	Shown       Verdict // currently shown verdict
}

// Verdict evaluates the run at a moment. The step of the evidence must be the next one to be planned.
func (e Evidence) Verdict(m VerdictInput) Verdict { return (&judgement{m, newWait(e)}).evaluate() }

// judgement is the evaluation of a run at a moment.
type judgement struct {
	VerdictInput
	w *wait
}

func (m *judgement) evaluate() Verdict {
	if m.Failed != nil {
		return failedVerdict(m.Failed)
	}
	var e *fault.Error
	if !m.Ended {
		e = m.w.runCause()
	}
	found, starves := m.w.worstFinding()
	switch {
	case e == nil && found != nil && found.Level == census.Critical && !starves:
		return m.stallVerdict(RankCause(found))
	case m.Ended:
		return m.endedVerdict()
	}
	waits, readers := m.w.hasWaitingTrainer(), m.w.Demand.HasReaders()
	full := m.w.Step >= m.w.Report.FirstUnrequested+uint64(m.w.Options.Ahead)
	if e == nil && (waits || !readers && !full) && (m.w.Step == 0 || m.RateSampler.isStalled(m.At, m.Shown.isStalled())) {
		e = m.w.stepCause()
	}
	switch {
	case e != nil:
		v := m.stallVerdict(e)
		if found != nil && e.Reason != fault.RankMissing {
			v.Detail = strings.TrimPrefix(v.Detail+"; "+describeFinding(found), "; ")
		}
		return v
	case !readers:
		return m.readerlessVerdict(full)
	case !waits && m.RateSampler.isIdle(m.At):
		return Verdict{Health: Waiting, Sentence: fmt.Sprintf("Waiting for the ranks, %s: they have steps and request none",
			humanize.Time(m.RateSampler.sinceLastStep(m.At))), Bottleneck: LimitRanks,
			Detail: m.describeIdleRanks(), Advice: "look whether the trainer evaluates, writes a checkpoint or hangs"}
	}
	return m.runningVerdict()
}

// readerlessVerdict returns the verdict of a run without connected readers. full reports that the plan has its maximum
// lead.
func (m *judgement) readerlessVerdict(full bool) Verdict {
	v := Verdict{Health: Waiting, Bottleneck: LimitRanks}
	switch {
	case !full:
		v.Sentence = fmt.Sprintf("Planning ahead: %s of %d, no reader is connected",
			humanize.Things(int(m.w.Step-min(m.w.Step, m.w.Report.FirstUnrequested)), "step"), m.w.Options.Ahead)
		v.Advice = "start the trainer when you like"
		return v
	case m.BufferedJob != "":
		v.Detail = fmt.Sprintf("the ranks of job %q read what they were sent before", m.BufferedJob)
		v.Advice = "wait: they connect when they need the next step"
	default:
		v.Sentence = fmt.Sprintf("Waiting for ranks: none is connected, %s planned ahead",
			humanize.Are(m.w.Options.Ahead, "step"))
		v.Advice = "start the trainer; it reads at once"
		return v
	}
	v.Sentence = fmt.Sprintf("Waiting for ranks: %s planned ahead", humanize.Are(m.w.Options.Ahead, "step"))
	return v
}

// appendFailsAfter is the duration of an append to the plan log after which the run is Failing. A busy disk can take
// seconds.
const appendFailsAfter = 10 * time.Second

// stallVerdict converts the error of a waiting reader into a verdict.
func (m *judgement) stallVerdict(e *fault.Error) Verdict {
	v := Verdict{Health: Waiting, Sentence: e.Brief, Detail: e.Detail, Advice: e.Advice, Reason: e.Reason,
		Facts: m.w.causeFacts(e)}
	switch e.Reason {
	case fault.SourceDown, fault.StreamFull, fault.StorageFull, fault.StorageDown, fault.RankMissing:
		v.Health = Failing
	case fault.PlanLogDown:
		if m.w.Report.AppendTime >= appendFailsAfter {
			v.Health = Failing
		}
	case fault.NotLeading:
		if m.w.Report.Age >= takeoverTimeout {
			v.Health = Failing
		}
	}
	switch e.Reason {
	case fault.SourceDown, fault.SourceDry, fault.StreamFull, fault.PoolFilling, fault.DocumentsFiltered:
		v.Bottleneck = LimitDocuments
	case fault.TokenizerBehind, fault.Replaying:
		v.Bottleneck = LimitTokenizer
	case fault.PlanLogDown, fault.NotLeading, fault.StorageFull, fault.StorageDown:
		v.Bottleneck = LimitPlan
	case fault.RankBehind, fault.RankMissing:
		v.Bottleneck = LimitRanks
	}
	return v
}

// failedVerdict returns the verdict of a run that no longer serves.
func failedVerdict(err error) Verdict {
	e := Failure(err)
	v := Verdict{Health: Failing, Sentence: "Stopped: " + e.Message, Advice: e.Advice, Reason: e.Reason, Facts: e.Facts}
	if e.Err != nil {
		v.Detail = e.Err.Error()
	}
	return v
}

// endedVerdict returns the verdict once the last step is planned. The run has ended when all ranks have consumed it.
func (m *judgement) endedVerdict() Verdict {
	steps := m.w.Step
	v := Verdict{Health: Running, Sentence: "Ended at step " + humanize.Count(steps), Detail: m.w.describeSkipped()}
	if filtered := describeFilters(&m.w.Report.PlanStats, nil); filtered != "" && steps == 0 {
		return Verdict{Health: Failing, Sentence: "Ended without a step: " + filtered, Detail: v.Detail,
			Bottleneck: LimitDocuments, Advice: "correct the filters and start a new run", Reason: fault.DocumentsFiltered}
	}
	var last *census.Rank
	for _, j := range m.w.Ranks.Jobs {
		for i, r := range j.Ranks {
			if r.ConsumedSteps() < steps && r.State != census.Left && (r.Streams > 0 || r.Reports) &&
				(last == nil || r.ConsumedSteps() < last.ConsumedSteps()) {
				last = &j.Ranks[i]
			}
		}
	}
	if last != nil {
		v.Sentence = fmt.Sprintf("%s planned: %s", allStepsSubject(steps), describeProgress(last))
		v.Bottleneck = LimitRanks
		return v
	}
	for _, j := range m.w.Ranks.GoneJobs {
		for i, r := range j.Ranks {
			if r.Reports && !r.Left && r.ConsumedSteps() < min(steps, r.Sent) &&
				(last == nil || r.ConsumedSteps() < last.ConsumedSteps()) {
				last = &j.Ranks[i]
			}
		}
	}
	if last != nil {
		v.Health, v.Bottleneck = Waiting, LimitRanks
		v.Sentence = fmt.Sprintf("%s planned, and job %q has gone: %s", allStepsSubject(steps), last.Job,
			describeProgress(last))
		v.Advice = "start the trainer again; it resumes from its checkpoint"
	}
	return v
}

// allStepsSubject returns the beginning of a sentence about all steps of an ended run, for example: All 10 steps are.
func allStepsSubject(steps uint64) string {
	if steps == 1 {
		return "The only step is"
	}
	return "All " + humanize.Are(int(steps), "step")
}

// describeProgress describes the progress of a rank, for example: rank 0 of 1 of job "trainer" has consumed 1 (120
// sent).
func describeProgress(r *census.Rank) string {
	name := fmt.Sprintf("rank %d of %d of job %q", r.Rank, r.World, r.Job)
	if r.Reports {
		return fmt.Sprintf("%s has consumed %s (%s sent)", name, humanize.Count(r.ConsumedSteps()), humanize.Count(r.Sent))
	}
	return fmt.Sprintf("%s has been sent %s", name, humanize.Count(r.Sent))
}

// isStalled reports whether readers wait for a step that cannot be planned for a known reason.
func (v Verdict) isStalled() bool { return v.Health == Waiting && v.Reason != "" }

// isOutpaced reports whether ranks wait for documents most of the time. waits is the part of the last minute during
// which one waited. Hysteresis keeps the shown verdict until the other is clear.
func (v Verdict) isOutpaced(waits float64) bool {
	switch {
	case v.Health == Running && v.Bottleneck == LimitRanks:
		return waits >= .6
	case v.Health == Running && v.Bottleneck != "":
		return waits >= .4
	}
	return waits >= .5
}

// runningVerdict returns the verdict of a run whose steps are planned without a stall.
func (m *judgement) runningVerdict() Verdict {
	r, waits := m.w.Rates, m.RateSampler.waitingFraction()
	v := Verdict{Health: Running, Bottleneck: LimitRanks}
	found, _ := m.w.worstFinding()
	pace, since := "", m.RateSampler.sinceLastStep(m.At)
	switch holds := m.describeSlowest(waits); {
	case found != nil:
		pace = describeFinding(found)
		v.Advice = RankCause(found).Advice
	case holds != "":
		pace = holds
		v.Advice = "look at that rank: its trainer is slower than the others"
	case !m.Shown.isOutpaced(waits) && r.Tokens < 1 && since > 0:
		pace = fmt.Sprintf("the ranks have requested no step for %s", humanize.Time(since))
	case !m.Shown.isOutpaced(waits):
		pace = "the ranks set the pace"
	case m.w.source.DrySince.IsZero() && m.w.source.Last > m.w.source.Fetched: // documents wait for the daemon
		pace = "the tokenizer sets the pace"
		v.Bottleneck, v.Advice = LimitTokenizer,
			"for more give the daemon more processors (stream.workers), or publish token ids"
	default:
		pace = "the documents set the pace"
		v.Bottleneck, v.Advice = LimitDocuments, "for more let producers publish faster"
	}
	v.Sentence = "Running: " + pace
	if r.Tokens >= 1 {
		v.Sentence = fmt.Sprintf("Running: %s tokens/s, %s", humanize.Short(r.Tokens), pace)
	}
	if m.w.Report.StreamProblem != "" {
		v.Health, v.Detail = Failing, m.w.Report.StreamProblem
		v.Sentence += "; something is wrong with the document stream"
		v.Advice = "see what it is, and docs/how-to/troubleshooting.md#the-document-stream-was-changed"
	}
	if n := r.Undecodable / max(r.Documents, 1e-9); n >= .05 {
		v.Sentence += fmt.Sprintf("; %.0f %% of the documents cannot be decoded", 100*n)
		v.Advice = "look at the dead letters (loaderd dlq list), and at the producer"
		if n >= .5 {
			v.Health = Failing
		}
	}
	return v
}

// describeSlowest describes the rank that the other ranks wait for, or that lags behind them; empty if none does. waits
// is the part of the last minute during which a rank waited.
func (m *judgement) describeSlowest(waits float64) string {
	slowest, behind := m.slowestRank()
	if behind < minLag {
		return ""
	}
	steps := humanize.Things(int(behind), "step")
	if waits >= .5 && behind+2 >= uint64(m.w.Options.Ahead) { // the plan does not extend further ahead of it
		return fmt.Sprintf("%s holds the others (%s behind)", slowest, steps)
	}
	return fmt.Sprintf("%s is %s behind", slowest, steps)
}

// slowestRank returns the rank that lags most behind its job's furthest rank, and by how many consumed steps.
func (m *judgement) slowestRank() (name string, behind uint64) {
	for _, j := range m.w.Ranks.Jobs {
		if j.MaxConsumed-j.MinConsumed <= max(behind, j.Slack) {
			continue
		}
		for _, r := range j.Ranks {
			if r.State == census.Reading && r.ConsumedSteps() == j.MinConsumed {
				name, behind = fmt.Sprintf("rank %d of %d of job %q", r.Rank, r.World, r.Job), j.MaxConsumed-j.MinConsumed
				break
			}
		}
	}
	return name, behind
}

// describeIdleRanks describes the ranks that request no step.
func (m *judgement) describeIdleRanks() string {
	if holds := m.describeSlowest(0); holds != "" {
		return holds
	}
	for _, j := range m.w.Ranks.Jobs {
		if j.Reports && j.MinConsumed == j.MaxConsumed {
			return fmt.Sprintf("%s of job %q %s step %d", humanize.Things(j.Present, "rank"), j.Job,
				map[bool]string{true: "holds", false: "hold"}[j.Present == 1], j.MinConsumed)
		}
	}
	return ""
}

// Failure converts an error that ended the run into the error that readers receive.
func Failure(err error) *fault.Error {
	var e *fault.Error
	if errors.As(err, &e) {
		return e
	}
	return &fault.Error{Reason: fault.RunFailed, Message: "the run stopped", Err: err,
		Advice: "read the daemon's log, fix the cause and restart it"}
}
