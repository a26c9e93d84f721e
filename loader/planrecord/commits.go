package planrecord

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"loaderd/loader/internal/codec"
)

// DefaultJob is the job of a commit that names none.
const DefaultJob = "trainer"

// MaxCommittingJobs is the maximum number of jobs per run that commit, and maxJobName the maximum length of a name in
// bytes.
const (
	MaxCommittingJobs = 256
	maxJobName        = 64
)

// Commits maps the jobs that commit to their last committed step: the job's checkpoints cover all steps before it.
// Such a job has its own durable checkpoints, for example a trainer or an evaluator that follows it. The lowest of
// these steps determines the low watermark, because its job may still request later steps.
type Commits map[string]JobCommit

// JobCommit is the last commit of a job. In JSON it is Step.
type JobCommit struct {
	Step    uint64
	Skipped uint64 // of the steps before Step, as the job counts them
}

// MarshalJSON implements json.Marshaler.
func (c JobCommit) MarshalJSON() ([]byte, error) { return json.Marshal(c.Step) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *JobCommit) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &c.Step) }

// Skipped returns the number of skipped steps of each job that has any.
func (k Commits) Skipped() map[string]uint64 {
	var out map[string]uint64
	for job, c := range k {
		if c.Skipped > 0 {
			if out == nil {
				out = map[string]uint64{}
			}
			out[job] = c.Skipped
		}
	}
	return out
}

// Committed returns the step before which the checkpoints of every job cover all steps, or 0 without jobs.
func (k Commits) Committed() uint64 {
	if len(k) == 0 {
		return 0
	}
	return k[k.Slowest()].Step
}

// Slowest returns the job with the lowest commit; an empty name without jobs.
func (k Commits) Slowest() (name string) {
	for job := range k {
		if name == "" || cmp.Or(cmp.Compare(k[job].Step, k[name].Step), cmp.Compare(job, name)) < 0 {
			name = job
		}
	}
	return name
}

// StepAfter returns a job's committed step after a commit, and whether the commit changes it. The step never decreases:
// a commit of an earlier step has no effect.
func (k Commits) StepAfter(c Commit) (step uint64, changes bool) {
	before, known := k[c.Job]
	step = max(c.Step, before.Step)
	return step, !known || step != before.Step
}

// WithEntry returns the jobs after the record of a commit or a leave.
func (k Commits) WithEntry(e Entry) Commits {
	out := maps.Clone(k)
	switch e := e.(type) {
	case Commit:
		if _, changes := k.StepAfter(e); changes {
			out[e.Job] = JobCommit{e.Step, e.Skipped}
		}
	case Leave:
		delete(out, e.Job)
	}
	return out
}

// ValidJob rejects names that are invalid for a job.
func ValidJob(name string) error { return validateName("job", name, maxJobName) }

func validateName(whose, name string, most int) error {
	if len(name) < 1 || len(name) > most {
		return fmt.Errorf("a %s's name has 1 to %d bytes, this one %d", whose, most, len(name))
	}
	for _, c := range []byte(name) {
		if c < ' ' || c > '~' {
			return fmt.Errorf("a %s's name is printable ASCII, %q is not", whose, name)
		}
	}
	return nil
}

func readJob(r *codec.Cursor) string {
	name := string(r.Bytes(int(r.BoundedUvarint(maxJobName))))
	if err := ValidJob(name); err != nil {
		r.Fail(err)
	}
	return name
}

// appendState writes the jobs in the order of their names, with their skipped steps if skips is set.
func (k Commits) appendState(b []byte, skips bool) []byte {
	b = binary.AppendUvarint(b, uint64(len(k)))
	for _, name := range slices.Sorted(maps.Keys(k)) {
		b = codec.AppendString(b, name)
		b = binary.AppendUvarint(b, k[name].Step)
		if skips {
			b = binary.AppendUvarint(b, k[name].Skipped)
		}
	}
	return b
}

func readCommits(r *codec.Cursor, skips bool) Commits {
	k := Commits{}
	for range r.BoundedUvarint(MaxCommittingJobs) {
		name := readJob(r)
		c := JobCommit{Step: r.Uvarint()}
		if skips {
			c.Skipped = r.Uvarint()
		}
		if r.Err != nil {
			break
		}
		k[name] = c
	}
	return k
}
