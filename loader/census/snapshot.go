package census

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"
)

// Snapshot is what a daemon sends to the other daemons of its run about the processes in its own census. Times are sent
// as ages, so that the clocks of two machines are not compared.
type Snapshot struct {
	Jobs []JobSnapshot `json:"jobs,omitempty"`
	// Partial reports whether the roll omits processes because there are too many.
	Partial bool `json:"partial,omitempty"`
	// Page is the index of a page of a roll that is sent in parts, and Pages the number of pages; 0 for an undivided
	// roll.
	Page  int `json:"page,omitempty"`
	Pages int `json:"pages,omitempty"`
}

// JobSnapshot is the part of a Roll for one job and world size. A rank is [rank, peer, flags, streams, from, taken,
// sent, heard, still, since]. The last three are in milliseconds before the roll. maxCount stands for a time that is
// not set, such as heard without a report.
type JobSnapshot struct {
	Job   string     `json:"job"`
	World int        `json:"world"`
	Ranks [][]uint64 `json:"ranks"`
}

// Flags of a rank. Readers ignore unknown flags.
const (
	flagReports = 1 << iota
	flagWaiting
	flagLeft
	flagEnded
	flagStarves
)

// Bounds of a roll.
const (
	maxSnapshotRanks = 8192
	maxSnapshotJobs  = 1024
	maxWorld         = 1 << 20
	maxCount         = 1<<53 - 1
	rankFields       = 10
	maxPages         = 1024
)

// Snapshot returns the roll of the daemon's own census.
func (c *Census) Snapshot(now time.Time) Snapshot {
	ids := make([]ProcessID, 0, len(c.own))
	for id := range c.own {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, compareIDs)
	out := Snapshot{Partial: c.truncated}
	for i, id := range ids {
		n := len(out.Jobs)
		if i == maxSnapshotRanks || n == maxSnapshotJobs && ids[i-1].Key != id.Key {
			out.Partial = true
			break
		}
		if n == 0 || ids[i-1].Key != id.Key {
			out.Jobs = append(out.Jobs, JobSnapshot{Job: id.Job, World: id.World})
			n++
		}
		out.Jobs[n-1].Ranks = append(out.Jobs[n-1].Ranks, c.own[id].encode(id, now))
	}
	return out
}

// SplitPages returns the pages of the roll, each of at most the given number of encoded bytes. Another daemon merges
// them in order.
func (r Snapshot) SplitPages(bytes int) []Snapshot {
	pages := []Snapshot{{Partial: r.Partial}}
	size := snapshotBytes
	for _, j := range r.Jobs {
		head := jobBytes + nameBytes*len(j.Job)
		begun := false // on this page
		for _, rank := range j.Ranks {
			n := len(rank) + len("[],")
			for _, x := range rank {
				n += len(strconv.FormatUint(x, 10))
			}
			if !begun {
				n += head
			}
			if size > snapshotBytes && size+n > bytes {
				if begun {
					n += head
				}
				pages, size, begun = append(pages, Snapshot{Partial: r.Partial}), snapshotBytes, false
			}
			p := &pages[len(pages)-1]
			if !begun {
				p.Jobs, begun = append(p.Jobs, JobSnapshot{Job: j.Job, World: j.World}), true
			}
			last := &p.Jobs[len(p.Jobs)-1]
			last.Ranks = append(last.Ranks, rank)
			size += n
		}
	}
	if len(pages) > 1 {
		for i := range pages {
			pages[i].Page, pages[i].Pages = i, len(pages)
		}
	}
	return pages
}

// Maximum encoded bytes around the ranks of a page and of a job, and per byte of a job's name.
const (
	snapshotBytes = 80
	jobBytes      = 40
	nameBytes     = 6
)

func compareIDs(a, b ProcessID) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.World, b.World), cmp.Compare(a.Rank, b.Rank),
		cmp.Compare(a.Peer, b.Peer))
}

func (e *Process) encode(id ProcessID, now time.Time) []uint64 {
	age := func(t time.Time) uint64 {
		if t.IsZero() {
			return maxCount
		}
		return uint64(max(0, now.Sub(t).Milliseconds()))
	}
	var flags uint64
	for i, set := range []bool{e.Reports, e.Waiting, e.Left, e.Ended, e.Starving} {
		if set {
			flags |= 1 << i
		}
	}
	return []uint64{uint64(id.Rank), uint64(id.Peer), flags, uint64(e.Streams), e.From, e.Delivered, e.Sent,
		age(e.LastReport),
		age(e.LastProgress), age(e.Since)}
}

// Validate returns an error for a roll that no daemon can have sent. validJob checks the name of a job.
func (r Snapshot) Validate(validJob func(string) error) error {
	if len(r.Jobs) > maxSnapshotJobs {
		return fmt.Errorf("roll of %d jobs", len(r.Jobs))
	}
	if r.Page < 0 || r.Pages < 0 || r.Pages > maxPages || r.Page > 0 && r.Page >= r.Pages {
		return fmt.Errorf("page %d of %d of a roll", r.Page, r.Pages)
	}
	ranks := 0
	for _, j := range r.Jobs {
		if err := validJob(j.Job); err != nil {
			return err
		}
		if j.World < 1 || j.World > maxWorld {
			return fmt.Errorf("roll of world %d", j.World)
		}
		if ranks += len(j.Ranks); ranks > maxSnapshotRanks {
			return fmt.Errorf("roll of more than %d ranks", maxSnapshotRanks)
		}
		for _, x := range j.Ranks {
			if len(x) != rankFields || x[0] >= uint64(j.World) || slices.Max(x) > maxCount || x[1] >= maxWorld ||
				x[3] > maxWorld {
				return fmt.Errorf("roll with rank %d of world %d", x, j.World)
			}
		}
	}
	return nil
}

// entries returns the processes of a checked roll that arrives at now.
func (r Snapshot) entries(now time.Time) iter.Seq2[ProcessID, Process] {
	at := func(age uint64) time.Time {
		if age == maxCount {
			return time.Time{}
		}
		return now.Add(-time.Duration(min(age, uint64(2*forgetAfter/time.Millisecond))) * time.Millisecond)
	}
	return func(yield func(ProcessID, Process) bool) {
		for _, j := range r.Jobs {
			for _, x := range j.Ranks {
				e := Process{Streams: int(x[3]), From: x[4], Delivered: x[5], Sent: x[6], LastReport: at(x[7]),
					LastProgress: at(x[8]),
					Since:        at(x[9]),
					Reports:      x[2]&flagReports != 0, Waiting: x[2]&flagWaiting != 0, Left: x[2]&flagLeft != 0,
					Ended: x[2]&flagEnded != 0, Starving: x[2]&flagStarves != 0}
				if !yield(ProcessID{Key{j.Job, j.World}, int(x[0]), int(x[1])}, e) {
					return
				}
			}
		}
	}
}
