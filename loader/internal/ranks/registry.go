package ranks

import (
	"sync"
	"time"

	"loaderd/loader/census"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// Registry is a daemon's census of ranks. The follower, the heartbeats and the reports of clients use it
// concurrently.
type Registry struct {
	mu         sync.Mutex
	census     *census.Census
	lastView   census.View
	rollSentAt time.Time          // when the last roll was sent
	commits    planrecord.Commits // of the last view
	// bufferedJob is the job of the last report of a rank without a stream, as after a restart of the daemon; bufferedAt
	// is its time.
	bufferedJob string
	bufferedAt  time.Time
}

const (
	// rollInterval is the interval at which a daemon sends its roll to the others.
	rollInterval = time.Second
)

// New returns an empty registry.
func New() *Registry { return &Registry{census: census.New()} }

// CensusID returns the identity of a rank in the census.
func CensusID(p state.RankID) census.ProcessID {
	return census.ProcessID{Key: census.Key{Job: p.JobName(), World: p.World}, Rank: p.Rank, Peer: p.Peer}
}

// Open records the stream of a reader; Close records its end and the number of steps sent to it.
func (s *Registry) Open(place state.RankID, c state.Client, step uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.census.Open(CensusID(place), census.Client{Session: c.Session, Delivered: c.Delivered, Address: c.Address}, step,
		time.Now())
}

// Close records that the stream of a rank has closed; sent is the number of steps sent to it.
func (s *Registry) Close(place state.RankID, sent uint64, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.census.RecordSent(CensusID(place), sent, now)
	s.census.Close(CensusID(place), ended, now)
}

// Report records what the trainer of a rank has consumed. planned is the number of planned steps.
func (s *Registry) Report(place state.RankID, c state.Consumption, planned uint64) (known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	known = s.census.RecordReport(CensusID(place), census.Report{Session: c.Session, Delivered: c.Delivered,
		Waiting:  c.Waiting,
		Starving: c.Waiting && c.Delivered >= planned, SinceChange: c.SinceChange, Left: c.Left}, now)
	if !known && !c.Left {
		s.bufferedJob, s.bufferedAt = place.JobName(), now
	}
	return known
}

// BufferedJob returns a job whose ranks report but have no streams. They consume steps that were sent to them before.
func (s *Registry) BufferedJob() (job string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const reports = 3 * time.Second // longer than the reporting interval
	if s.bufferedAt.IsZero() || time.Since(s.bufferedAt) >= reports {
		return "", false
	}
	return s.bufferedJob, true
}

// Evaluate evaluates the ranks again and returns the result. sent has the number of steps sent to each reader. Of a
// job whose ranks have agreed on a world size, and read with it, the processes of earlier ones are omitted.
func (s *Registry) Evaluate(sent map[state.RankID]uint64, commits planrecord.Commits,
	worlds planrecord.WorldSizes) census.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for place, step := range sent {
		s.census.RecordSent(CensusID(place), step, now)
	}
	for job := range s.commits {
		if _, stays := commits[job]; !stays {
			s.census.Leave(job, now)
		}
	}
	s.commits = commits
	s.lastView = s.census.View(now).WithoutFormer(func(job string) int { return worlds[job].Ranks })
	return s.lastView
}

// LastView returns the result of the last evaluation.
func (s *Registry) LastView() census.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastView
}

// HasStreams reports whether a job has an open stream with a world size, at any daemon.
func (s *Registry) HasStreams(job census.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.census.HasStreams(job, time.Now())
}

// OpenStreams returns the open streams of a job with one world size, at all daemons.
func (s *Registry) OpenStreams(job census.Key) census.OpenStreams {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.census.OpenStreams(job, time.Now())
}

// RollPages returns the pages of the roll for the other daemons, of at most that many bytes each; none if less than
// rollInterval has passed since the last one.
func (s *Registry) RollPages(most int) []census.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.rollSentAt) < rollInterval {
		return nil
	}
	s.rollSentAt = now
	return s.census.Snapshot(now).SplitPages(most)
}

// MergeRoll merges the roll of another daemon; nil if it stops.
func (s *Registry) MergeRoll(daemon string, r *census.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r == nil {
		r = &census.Snapshot{}
	}
	s.census.Merge(daemon, *r, time.Now())
}

// RankIDOf returns the place of a rank.
func RankIDOf(id census.ProcessID) state.RankID {
	return state.RankID{Job: id.Job, Rank: id.Rank, World: id.World, Peer: id.Peer}
}
