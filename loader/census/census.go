// Package census keeps the processes of training jobs that read a run: which are present, how far each has consumed,
// and which of them holds the others. Every daemon keeps a census of the ranks that it serves and merges those of the
// other daemons.
//
// The package is pure: the time is an argument, and there is neither goroutine nor lock. Nothing of a census may reach
// the plan.
package census

import (
	"time"
)

// Key identifies the ranks of a job: one job may read with several world sizes, which are judged separately.
type Key struct {
	Job   string
	World int
}

// ID identifies a process that reads. Several processes may read as one rank; Peer tells them apart.
type ID struct {
	Key
	Rank, Peer int
}

// Entry is the state of a process. It begins with its first stream and outlives its streams.
type Entry struct {
	Streams int       // that are open
	Since   time.Time // when the process opened its first stream or, while none is open, when the last one ended
	From    uint64    // first step of the process
	Sent    uint64    // steps that its streams were handed
	Ended   bool      // its last stream was sent all steps that it asked for

	// Of a client that reports:
	Reports bool
	Session string    // of the client; not in a Roll, as Address
	Taken   uint64    // steps handed to the trainer
	Waiting bool      // the trainer waits for the next one
	Starves bool      // that one was not planned when the report arrived
	Left    bool      // the client was closed on purpose
	Heard   time.Time // when the last report arrived

	Moved   time.Time // when the process last consumed a step or asked for one
	Address string    // of the client

	opened time.Time // when the client opened its first stream here
}

// Consumed returns how many steps the trainer has consumed: those taken but for the one that it holds. Of a client that
// does not report it is those sent.
func (e Entry) Consumed() uint64 {
	switch {
	case !e.Reports:
		return e.Sent
	case e.Holds():
		return e.Taken - 1
	}
	return e.Taken
}

// Holds reports whether the trainer computes with a step.
func (e Entry) Holds() bool { return e.Reports && !e.Waiting && e.Taken > e.From }

// asked returns the first step that the trainer has not asked for; of a client that does not report the first one that
// it was not sent.
func (e Entry) asked() uint64 {
	switch {
	case !e.Reports:
		return e.Sent
	case e.Waiting:
		return e.Taken + 1
	}
	return e.Taken
}

// gone returns the last sign of life of a process that is not present.
func (e Entry) gone() time.Time {
	if e.Reports {
		return e.Heard
	}
	return e.Since
}

// Report is what a client reports of its trainer.
type Report struct {
	Session string
	Taken   uint64
	Waiting bool
	Starves bool          // it waits for a step that is not planned
	Still   time.Duration // since Taken or Waiting changed
	Left    bool
}

const (
	// maxRanks bounds the processes of a census, own ones and those of other daemons each.
	maxRanks = 65_536
	// forgetAfter is when a process without streams and reports is removed.
	forgetAfter = 10 * time.Minute
	// silentAfter is when a daemon that has sent no roll counts as gone, with its streams.
	silentAfter = 3 * time.Second
)

// Census keeps the processes that one daemon serves or receives reports of, and the rolls of other daemons. It is not
// safe for concurrent use.
type Census struct {
	own    map[ID]*Entry
	others map[string]*station
	paces  map[Key]*pace
	left   map[string]time.Time // jobs that have left, and when
	cut    bool                 // a process was not recorded for lack of room
}

// station is another daemon.
type station struct {
	heard   time.Time // when its last roll arrived
	entries map[ID]Entry
	cut     bool
	page    int         // that continues the roll which is being merged
	rolled  map[ID]bool // processes on the pages before it; nil where a page is missing
}

// New returns an empty census.
func New() *Census {
	return &Census{own: map[ID]*Entry{}, others: map[string]*station{}, paces: map[Key]*pace{},
		left: map[string]time.Time{}}
}

// Client is a client that opens a stream.
type Client struct {
	Session string // empty where it does not report
	Taken   uint64 // steps that its trainer has taken, where it reports
	Address string
}

// Open records a stream that begins at step from.
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

// Send records how many steps the streams of a process were handed.
func (c *Census) Send(id ID, sent uint64, now time.Time) {
	if e := c.own[id]; e != nil && e.Sent != sent {
		e.Sent = sent
		if !e.Reports {
			e.Moved = now
		}
	}
}

// Close records the end of a stream; ended reports whether it was sent all steps that it asked for.
func (c *Census) Close(id ID, ended bool, now time.Time) {
	if e := c.own[id]; e != nil && e.Streams > 0 {
		if e.Streams--; e.Streams == 0 {
			e.Since, e.Ended = now, ended
		}
	}
}

// Report records the report of a client whose stream is open here or at another daemon, or was. It returns false for
// any other client: reports alone do not make an entry.
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

// elsewhere returns the entry of a process that another daemon serves, or has served.
func (c *Census) elsewhere(id ID) (Entry, bool) {
	for _, s := range c.others {
		if e, ok := s.entries[id]; ok && e.Reports && !e.Since.IsZero() {
			return e, true
		}
	}
	return Entry{}, false
}

// Leave records that a job has left: what is missing of it is not missed until one of its ranks opens another stream.
func (c *Census) Leave(job string, now time.Time) { c.left[job] = now }

// Merge takes in the roll of another daemon or its next page, an empty one of a daemon that stops. Processes that the
// roll no longer has keep their last state, without streams: after its last page, unless a page is missing.
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

// forget removes what no judgement needs any longer.
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

// seen returns an entry of the daemon as of now: without streams where the daemon is silent.
func (s *station) seen(e Entry, now time.Time) Entry {
	if e.Streams > 0 && now.Sub(s.heard) > silentAfter {
		e.Streams, e.Since = 0, s.heard
	}
	return e
}
