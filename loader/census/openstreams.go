package census

import (
	"cmp"
	"slices"
	"time"
)

// OpenStreams describes the open streams of a job with one world size, at all daemons.
type OpenStreams struct {
	Ranks []int // the first maxListedRanks ranks with an open stream, in ascending order
	Count int   // number of these ranks
	// Address is that of the client of the first rank, and Daemon the other daemon that serves it; one of them is empty.
	Address, Daemon string
	// LastReport is the time of the last report of any of the clients. It is the present if a client does not report.
	LastReport time.Time
}

// AreSilent reports whether none of the clients has reported for SilentAfter, as after the loss of a machine. Their
// connections end later, when pings have no answer.
func (o OpenStreams) AreSilent(now time.Time) bool { return now.Sub(o.LastReport) >= SilentAfter }

// OpenStreams returns the open streams of a job with one world size.
func (c *Census) OpenStreams(job Key, now time.Time) OpenStreams {
	var out OpenStreams
	var first ProcessID
	open := map[ProcessID]bool{}         // processes with an open stream
	reports := map[ProcessID]time.Time{} // the last report of each process, which may have reported to another daemon
	include := func(id ProcessID, e Process, daemon string) {
		if id.Key != job {
			return
		}
		if e.Streams > 0 {
			if len(open) == 0 || cmp.Or(compareIDs(id, first), cmp.Compare(daemon, out.Daemon)) < 0 {
				first, out.Address, out.Daemon = id, e.Address, daemon
			}
			open[id] = true
		}
		if e.Reports && e.LastReport.After(reports[id]) {
			reports[id] = e.LastReport
		}
	}
	for id, e := range c.own {
		include(id, *e, "")
	}
	for name, s := range c.remotes {
		for id, e := range s.entries {
			include(id, s.currentEntry(e, now), name)
		}
	}
	for id := range open {
		out.Ranks = append(out.Ranks, id.Rank)
		last, reporting := reports[id]
		if !reporting {
			last = now
		}
		if last.After(out.LastReport) {
			out.LastReport = last
		}
	}
	slices.Sort(out.Ranks)
	out.Ranks = slices.Compact(out.Ranks)
	out.Count = len(out.Ranks)
	out.Ranks = out.Ranks[:min(out.Count, maxListedRanks)]
	return out
}
