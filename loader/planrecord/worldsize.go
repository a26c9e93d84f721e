package planrecord

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"loaderd/loader/internal/codec"
)

// MaxWorldSize is the maximum number of ranks of a job.
const MaxWorldSize = 1 << 20

// Resize records that the ranks of a job have agreed on a world size from a step on.
type Resize struct {
	Job string
	WorldSize
}

// WorldSize is the number of ranks of a job from a step on.
type WorldSize struct {
	Step  uint64 `json:"step"`
	Ranks int    `json:"ranks"`
}

// WorldSizes has the last change of the world size of each job that has had one. A job that is stopped may be started
// again with another world size, which is not recorded.
type WorldSizes map[string]WorldSize

// MaxResizedJobs is the maximum number of jobs per run with a recorded world size.
const MaxResizedJobs = 256

// WithEntry returns the world sizes after a record. The receiver is unchanged.
func (w WorldSizes) WithEntry(e Entry) WorldSizes {
	switch e := e.(type) {
	case Resize:
		out := maps.Clone(w)
		if out == nil {
			out = WorldSizes{}
		}
		out[e.Job] = e.WorldSize
		return out
	case Leave:
		if _, known := w[e.Job]; known {
			out := maps.Clone(w)
			delete(out, e.Job)
			return out
		}
	}
	return w
}

// Before returns the world sizes that jobs have at a step; nil for none.
func (w WorldSizes) Before(step uint64) WorldSizes {
	var out WorldSizes
	for job, size := range w {
		if size.Step <= step {
			out = out.WithEntry(Resize{job, size})
		}
	}
	return out
}

// Kind implements Entry.
func (Resize) Kind() byte { return kindResize }

func (c Resize) appendBody(b []byte) []byte {
	return binary.AppendUvarint(codec.AppendString(binary.AppendUvarint(b, c.Step), c.Job), uint64(c.Ranks))
}

func (c Resize) String() string {
	return fmt.Sprintf("job %q has %d ranks from step %d", c.Job, c.Ranks, c.Step)
}

func readResize(r *codec.Cursor) Resize {
	c := Resize{WorldSize: WorldSize{Step: r.Uvarint()}, Job: readJob(r)}
	if c.Ranks = int(r.BoundedUvarint(MaxWorldSize)); r.Err == nil && c.Ranks == 0 {
		r.Fail(fmt.Errorf("job %q has no ranks from step %d", c.Job, c.Step))
	}
	return c
}

// appendState writes the jobs in the order of their names.
func (w WorldSizes) appendState(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(w)))
	for _, job := range slices.Sorted(maps.Keys(w)) {
		b = Resize{job, w[job]}.appendBody(b)
	}
	return b
}

func readWorldSizes(r *codec.Cursor) WorldSizes {
	var w WorldSizes
	for range r.BoundedUvarint(MaxResizedJobs) {
		c := readResize(r)
		if r.Err != nil {
			break
		}
		w = w.WithEntry(c)
	}
	return w
}
