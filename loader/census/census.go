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

// Key identifies the ranks of a job with one world size. A job may read with several world sizes, which are judged
// separately.
type Key struct {
	Job   string
	World int
}

// ID identifies a reading process. Several processes may read as one rank; Peer distinguishes them.
type ID struct {
	Key
	Rank, Peer int
}

// Entry is the state of a process. It is created with the process's first stream and remains after its streams have
// ended.
type Entry struct {
	Streams int       // open streams
	Since   time.Time // when the process opened its first stream or, if none is open, when the last one ended
	From    uint64    // first step of the process
	Sent    uint64    // steps passed to its streams
	Ended   bool      // its last stream has sent all requested steps

	// Only for a client that reports:
	Reports bool
	Session string    // of the client; like Address, not in a Roll
	Taken   uint64    // steps passed to the trainer
	Waiting bool      // the trainer waits for the next one
	Starves bool      // the next step was not planned when the report arrived
	Left    bool      // the client was closed intentionally
	Heard   time.Time // when the last report arrived

	Moved   time.Time // when the process last consumed or requested a step
	Address string    // of the client

	opened time.Time // when the client opened its first stream here
}

// Consumed returns how many steps the trainer has consumed: the steps taken, except the one that it is computing
// with. For a client that does not report, it is the number of steps sent.
func (e Entry) Consumed() uint64 {
	switch {
	case !e.Reports:
		return e.Sent
	case e.Holds():
		return e.Taken - 1
	}
	return e.Taken
}

// Holds reports whether the trainer is computing with a step.
func (e Entry) Holds() bool { return e.Reports && !e.Waiting && e.Taken > e.From }

// asked returns the first step that the trainer has not requested. For a client that does not report, it is the first
// step that was not sent.
func (e Entry) asked() uint64 {
	switch {
	case !e.Reports:
		return e.Sent
	case e.Waiting:
		return e.Taken + 1
	}
	return e.Taken
}

// gone returns the time of the last activity of a process that is not present.
func (e Entry) gone() time.Time {
	if e.Reports {
		return e.Heard
	}
	return e.Since
}

// Report is a client's report on its trainer.
type Report struct {
	Session string
	Taken   uint64
	Waiting bool
	Starves bool          // waiting for a step that is not planned
	Still   time.Duration // since Taken or Waiting changed
	Left    bool
}

const (
	// maxRanks is the maximum number of a census's own processes, and of all processes of other daemons.
	maxRanks = 65_536
	// forgetAfter is the time after which a process without streams and reports is removed.
	forgetAfter = 10 * time.Minute
	// silentAfter is the time without a roll after which a daemon and its streams count as gone.
	silentAfter = 3 * time.Second
)

// Census records the processes that one daemon serves or receives reports from, and the rolls of other daemons. It is
// not safe for concurrent use.
type Census struct {
	own    map[ID]*Entry
	others map[string]*station
	paces  map[Key]*pace
	left   map[string]time.Time // jobs that have left, and the time
	cut    bool                 // a process was not recorded because of maxRanks
}

// station is another daemon.
type station struct {
	heard   time.Time // when its last roll arrived
	entries map[ID]Entry
	cut     bool
	page    int         // next page of the roll that is being merged
	rolled  map[ID]bool // processes on the pages before it; nil if a page is missing
}

// New returns an empty census.
func New() *Census {
	return &Census{own: map[ID]*Entry{}, others: map[string]*station{}, paces: map[Key]*pace{},
		left: map[string]time.Time{}}
}

// Client is a client that opens a stream.
type Client struct {
	Session string // empty if the client does not report
	Taken   uint64 // steps taken by its trainer, if the client reports
	Address string
}

// Open records a stream that starts at step from.
func (c *Census) Open(id ID, client Client, from uint64, now time.Time) {
	session, taken := client.Session, client.Taken
	if session == "" {
		taken = from
	}
	e := c.own[id]
	if e == nil {
		if len(c.own) >= maxRanks {
			c.cut = true
			return
		}
		e = &Entry{From: from}
		c.own[id] = e
	}
	another := e.Session != session || session == "" || taken < e.Taken // another process, or one that resumes
	if another {
		e.From, e.Waiting, e.Starves, e.Moved = taken, false, false, now
	}
	if e.Streams == 0 {
		if another || e.opened.IsZero() {
			e.opened = now
		}
		e.Since = e.opened
	}
	e.Streams++
	e.Sent, e.Ended, e.Left, e.Address = from, false, false, client.Address
	e.Session, e.Reports = session, session != ""
	if e.Reports {
		e.Taken, e.Heard = taken, now
	}
}

// Send records the number of steps passed to the streams of a process.
func (c *Census) Send(id ID, sent uint64, now time.Time) {
	if e := c.own[id]; e != nil && e.Sent != sent {
		e.Sent = sent
		if !e.Reports {
			e.Moved = now
		}
	}
}

// Close records the end of a stream. ended reports whether all requested steps were sent.
func (c *Census) Close(id ID, ended bool, now time.Time) {
	if e := c.own[id]; e != nil && e.Streams > 0 {
		if e.Streams--; e.Streams == 0 {
			e.Since, e.Ended = now, ended
		}
	}
}

// Report records the report of a client that has, or had, an open stream at this or another daemon. It returns false
// for any other client: a report alone does not create an entry.
func (c *Census) Report(id ID, r Report, now time.Time) (known bool) {
	e := c.own[id]
	if e == nil || e.Streams == 0 && e.Session != r.Session {
		there, ok := c.elsewhere(id)
		if !ok || e == nil && len(c.own) >= maxRanks {
			return false
		}
		e = &Entry{From: there.From, Sent: there.Sent, Session: r.Session}
		c.own[id] = e
	}
	if e.Session != r.Session {
		return false
	}
	e.Reports, e.Taken, e.Waiting, e.Starves, e.Left = true, r.Taken, r.Waiting, r.Starves, r.Left
	e.Heard, e.Moved = now, now.Add(-r.Still)
	return true
}

// elsewhere returns the entry of a process that another daemon serves or served.
func (c *Census) elsewhere(id ID) (Entry, bool) {
	for _, s := range c.others {
		if e, ok := s.entries[id]; ok && e.Reports && !e.Since.IsZero() {
			return e, true
		}
	}
	return Entry{}, false
}

// Leave records that a job has left. Its missing ranks are not reported until one of its ranks opens another stream.
func (c *Census) Leave(job string, now time.Time) { c.left[job] = now }

// Merge merges the roll of another daemon, or the next page of it. A daemon that stops sends an empty roll. Processes
// that are no longer in the roll keep their last state without streams. This is applied after the last page, unless a
// page is missing.
func (c *Census) Merge(daemon string, r Roll, now time.Time) {
	s := c.others[daemon]
	if s == nil {
		s = &station{entries: map[ID]Entry{}}
		c.others[daemon] = s
	}
	s.heard, s.cut = now, r.Partial
	switch {
	case r.Page == 0:
		s.rolled = map[ID]bool{}
	case r.Page != s.page:
		s.rolled = nil
	}
	s.page = r.Page + 1
	for id, e := range r.entries(now) {
		if _, known := s.entries[id]; !known && c.merged() >= maxRanks {
			s.cut = true
			continue
		}
		s.entries[id] = e
		if s.rolled != nil {
			s.rolled[id] = true
		}
	}
	if s.rolled == nil || s.page < r.Pages {
		return
	}
	for id, e := range s.entries {
		if !s.rolled[id] && e.Streams > 0 {
			e.Streams, e.Since = 0, now
			s.entries[id] = e
		}
	}
}

func (c *Census) merged() (n int) {
	for _, s := range c.others {
		n += len(s.entries)
	}
	return n
}

// forget removes entries that no longer affect any judgement.
func (c *Census) forget(now time.Time) {
	old := func(e Entry) bool {
		return e.Streams == 0 && now.Sub(e.Since) > forgetAfter && now.Sub(e.Heard) > forgetAfter
	}
	for id, e := range c.own {
		if old(*e) {
			delete(c.own, id)
		}
	}
	for name, s := range c.others {
		for id, e := range s.entries {
			if e = s.seen(e, now); old(e) {
				delete(s.entries, id)
			}
		}
		if len(s.entries) == 0 && now.Sub(s.heard) > forgetAfter {
			delete(c.others, name)
		}
	}
	for job, at := range c.left {
		if now.Sub(at) > forgetAfter {
			delete(c.left, job)
		}
	}
}

// seen returns the entry as of now: without streams if the daemon has sent no roll for silentAfter.
func (s *station) seen(e Entry, now time.Time) Entry {
	if e.Streams > 0 && now.Sub(s.heard) > silentAfter {
		e.Streams, e.Since = 0, s.heard
	}
	return e
}
