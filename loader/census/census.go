// Package census records the processes of training jobs that read a run: which are present, how far each has
// consumed, and which ones block the others. Every daemon has a census of the ranks that it serves, and merges the
// censuses of the other daemons.
//
// The package is pure: the time is an argument, and it has no goroutine and no lock. A census must not affect the
// plan.
package census

import (
	"time"
)

// Key identifies the ranks of a job with one world size. A job may read with several world sizes, which are evaluated
// separately.
type Key struct {
	Job   string
	World int
}

// ProcessID identifies a reading process. Several processes may read as one rank; Peer distinguishes them.
type ProcessID struct {
	Key
	Rank, Peer int
}

// Process is the state of a process. It is created with the process's first stream and remains after its streams have
// ended.
type Process struct {
	Streams int       // open streams
	Since   time.Time // when the process opened its first stream or, if none is open, when the last one ended
	From    uint64    // first step of the process
	Sent    uint64    // steps passed to its streams
	Ended   bool      // its last stream has sent all requested steps

	// Only for a client that reports:
	Reports    bool
	Session    string    // of the client; like Address, not in a Roll
	Delivered  uint64    // steps passed to the trainer
	Waiting    bool      // the trainer waits for the next one
	Starving   bool      // the next step was not planned when the report arrived
	Left       bool      // the client was closed intentionally
	LastReport time.Time // when the last report arrived

	LastProgress time.Time // when the process last consumed or requested a step
	Address      string    // of the client

	openedAt time.Time // when the client opened its first stream here
}

// ConsumedSteps returns how many steps the trainer has consumed: the steps taken, except the one that it is computing
// with. For a client that does not report, it is the number of steps sent.
func (e Process) ConsumedSteps() uint64 {
	switch {
	case !e.Reports:
		return e.Sent
	case e.IsComputing():
		return e.Delivered - 1
	}
	return e.Delivered
}

// IsComputing reports whether the trainer is computing with a step.
func (e Process) IsComputing() bool { return e.Reports && !e.Waiting && e.Delivered > e.From }

// firstUnrequested returns the first step that the trainer has not requested. For a client that does not report, it is
// the first step that was not sent.
func (e Process) firstUnrequested() uint64 {
	switch {
	case !e.Reports:
		return e.Sent
	case e.Waiting:
		return e.Delivered + 1
	}
	return e.Delivered
}

// lastActivity returns the time of the last activity of a process that is not present.
func (e Process) lastActivity() time.Time {
	if e.Reports {
		return e.LastReport
	}
	return e.Since
}

// Report is a client's report on its trainer.
type Report struct {
	Session     string
	Delivered   uint64
	Waiting     bool
	Starving    bool          // waiting for a step that is not planned
	SinceChange time.Duration // since Taken or Waiting changed
	Left        bool
}

const (
	// maxRanks is the maximum number of a census's own processes, and of all processes of other daemons.
	maxRanks = 65_536
	// forgetAfter is the time after which a process without streams and reports is removed.
	forgetAfter = 10 * time.Minute
	// snapshotTimeout is the time without a roll after which a daemon and its streams count as gone.
	snapshotTimeout = 3 * time.Second
)

// Census records the processes that one daemon serves or receives reports from, and the rolls of other daemons. It is
// not safe for concurrent use.
type Census struct {
	own       map[ProcessID]*Process
	remotes   map[string]*remoteDaemon
	paces     map[Key]*pace
	leftJobs  map[string]time.Time // jobs that have left, and the time
	truncated bool                 // a process was not recorded because of maxRanks
}

// remoteDaemon is another daemon.
type remoteDaemon struct {
	lastSnapshot time.Time // when its last roll arrived
	entries      map[ProcessID]Process
	truncated    bool
	nextPage     int                // next page of the roll that is being merged
	merged       map[ProcessID]bool // processes on the pages before it; nil if a page is missing
}

// New returns an empty census.
func New() *Census {
	return &Census{own: map[ProcessID]*Process{}, remotes: map[string]*remoteDaemon{}, paces: map[Key]*pace{},
		leftJobs: map[string]time.Time{}}
}

// Client is a client that opens a stream.
type Client struct {
	Session   string // empty if the client does not report
	Delivered uint64 // steps taken by its trainer, if the client reports
	Address   string
}

// Open records a stream that starts at step from.
func (c *Census) Open(id ProcessID, client Client, from uint64, now time.Time) {
	session, taken := client.Session, client.Delivered
	if session == "" {
		taken = from
	}
	e := c.own[id]
	if e == nil {
		if len(c.own) >= maxRanks {
			c.truncated = true
			return
		}
		e = &Process{From: from}
		c.own[id] = e
	}
	another := e.Session != session || session == "" || taken < e.Delivered // another process, or one that resumes
	if another {
		e.From, e.Waiting, e.Starving, e.LastProgress = taken, false, false, now
	}
	if e.Streams == 0 {
		if another || e.openedAt.IsZero() {
			e.openedAt = now
		}
		e.Since = e.openedAt
	}
	e.Streams++
	e.Sent, e.Ended, e.Left, e.Address = from, false, false, client.Address
	e.Session, e.Reports = session, session != ""
	if e.Reports {
		e.Delivered, e.LastReport = taken, now
	}
}

// RecordSent records the number of steps passed to the streams of a process.
func (c *Census) RecordSent(id ProcessID, sent uint64, now time.Time) {
	if e := c.own[id]; e != nil && e.Sent != sent {
		e.Sent = sent
		if !e.Reports {
			e.LastProgress = now
		}
	}
}

// Close records the end of a stream. ended reports whether all requested steps were sent.
func (c *Census) Close(id ProcessID, ended bool, now time.Time) {
	if e := c.own[id]; e != nil && e.Streams > 0 {
		if e.Streams--; e.Streams == 0 {
			e.Since, e.Ended = now, ended
		}
	}
}

// RecordReport records the report of a client that has, or had, an open stream at this or another daemon. It returns
// false for any other client: a report alone does not create an entry.
func (c *Census) RecordReport(id ProcessID, r Report, now time.Time) (known bool) {
	e := c.own[id]
	if e == nil || e.Streams == 0 && e.Session != r.Session {
		there, ok := c.remoteEntry(id)
		if !ok || e == nil && len(c.own) >= maxRanks {
			return false
		}
		e = &Process{From: there.From, Sent: there.Sent, Session: r.Session}
		c.own[id] = e
	}
	if e.Session != r.Session {
		return false
	}
	e.Reports, e.Delivered, e.Waiting, e.Starving, e.Left = true, r.Delivered, r.Waiting, r.Starving, r.Left
	e.LastReport, e.LastProgress = now, now.Add(-r.SinceChange)
	return true
}

// remoteEntry returns the entry of a process that another daemon serves or served.
func (c *Census) remoteEntry(id ProcessID) (Process, bool) {
	for _, s := range c.remotes {
		if e, ok := s.entries[id]; ok && e.Reports && !e.Since.IsZero() {
			return e, true
		}
	}
	return Process{}, false
}

// HasStreams reports whether a job has an open stream with a world size, here or at another daemon.
func (c *Census) HasStreams(job Key, now time.Time) bool {
	for id, e := range c.own {
		if id.Key == job && e.Streams > 0 {
			return true
		}
	}
	for _, s := range c.remotes {
		for id, e := range s.entries {
			if id.Key == job && s.currentEntry(e, now).Streams > 0 {
				return true
			}
		}
	}
	return false
}

// Leave records that a job has left. Its missing ranks are not reported until one of its ranks opens another stream.
func (c *Census) Leave(job string, now time.Time) { c.leftJobs[job] = now }

// Merge merges the roll of another daemon, or the next page of it. A daemon that stops sends an empty roll. Processes
// that are no longer in the roll keep their last state without streams. This is applied after the last page, unless a
// page is missing.
func (c *Census) Merge(daemon string, r Snapshot, now time.Time) {
	s := c.remotes[daemon]
	if s == nil {
		s = &remoteDaemon{entries: map[ProcessID]Process{}}
		c.remotes[daemon] = s
	}
	s.lastSnapshot, s.truncated = now, r.Partial
	switch {
	case r.Page == 0:
		s.merged = map[ProcessID]bool{}
	case r.Page != s.nextPage:
		s.merged = nil
	}
	s.nextPage = r.Page + 1
	for id, e := range r.entries(now) {
		if _, known := s.entries[id]; !known && c.countRemote() >= maxRanks {
			s.truncated = true
			continue
		}
		s.entries[id] = e
		if s.merged != nil {
			s.merged[id] = true
		}
	}
	if s.merged == nil || s.nextPage < r.Pages {
		return
	}
	for id, e := range s.entries {
		if !s.merged[id] && e.Streams > 0 {
			e.Streams, e.Since = 0, now
			s.entries[id] = e
		}
	}
}

func (c *Census) countRemote() (n int) {
	for _, s := range c.remotes {
		n += len(s.entries)
	}
	return n
}

// removeStale removes entries that no longer affect any judgement.
func (c *Census) removeStale(now time.Time) {
	old := func(e Process) bool {
		return e.Streams == 0 && now.Sub(e.Since) > forgetAfter && now.Sub(e.LastReport) > forgetAfter
	}
	for id, e := range c.own {
		if old(*e) {
			delete(c.own, id)
		}
	}
	for name, s := range c.remotes {
		for id, e := range s.entries {
			if e = s.currentEntry(e, now); old(e) {
				delete(s.entries, id)
			}
		}
		if len(s.entries) == 0 && now.Sub(s.lastSnapshot) > forgetAfter {
			delete(c.remotes, name)
		}
	}
	for job, at := range c.leftJobs {
		if now.Sub(at) > forgetAfter {
			delete(c.leftJobs, job)
		}
	}
}

// currentEntry returns the entry as of now: without streams if the daemon has sent no roll for silentAfter.
func (s *remoteDaemon) currentEntry(e Process, now time.Time) Process {
	if e.Streams > 0 && now.Sub(s.lastSnapshot) > snapshotTimeout {
		e.Streams, e.Since = 0, s.lastSnapshot
	}
	return e
}
