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
	mu      sync.Mutex
	census  *census.Census
	view    census.View
	rolled  time.Time          // when the last roll was sent
	keepers planrecord.Keepers // of the last view
	// bufferedJob is the job of the last report of a rank without a stream, as after a restart of the daemon; bufferedAt
	// is its time.
	bufferedJob string
	bufferedAt  time.Time
}

const (
	// rollEvery is the interval at which a daemon sends its roll to the others.
	rollEvery = time.Second
)

func New() *Registry { return &Registry{census: census.New()} }

func IdOf(p state.Place) census.ID {
	return census.ID{Key: census.Key{Job: p.JobName(), World: p.World}, Rank: p.Rank, Peer: p.Peer}
}

// Open records the stream of a reader; Close records its end and the number of steps sent to it.
func (s *Registry) Open(place state.Place, c state.Client, step uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.census.Open(IdOf(place), census.Client{Session: c.Session, Taken: c.Taken, Address: c.Address}, step, time.Now())
}

func (s *Registry) Close(place state.Place, sent uint64, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.census.Send(IdOf(place), sent, now)
	s.census.Close(IdOf(place), ended, now)
}

// Report records what the trainer of a rank has consumed. planned is the number of planned steps.
func (s *Registry) Report(place state.Place, c state.Consumption, planned uint64) (known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	known = s.census.Report(IdOf(place), census.Report{Session: c.Session, Taken: c.Taken, Waiting: c.Waiting,
		Starves: c.Waiting && c.Taken >= planned, Still: c.Still, Left: c.Left}, now)
	if !known && !c.Left {
		s.bufferedJob, s.bufferedAt = place.JobName(), now
	}
	return known
}

// Buffered returns a job whose ranks report but have no streams. They consume steps that were sent to them before.
func (s *Registry) Buffered() (job string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const reports = 3 * time.Second // longer than the reporting interval
	if s.bufferedAt.IsZero() || time.Since(s.bufferedAt) >= reports {
		return "", false
	}
	return s.bufferedJob, true
}

// Look evaluates the ranks again and returns the result. sent has the number of steps sent to each reader.
func (s *Registry) Look(sent map[state.Place]uint64, keepers planrecord.Keepers) census.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for place, step := range sent {
		s.census.Send(IdOf(place), step, now)
	}
	for job := range s.keepers {
		if _, stays := keepers[job]; !stays {
			s.census.Leave(job, now)
		}
	}
	s.keepers = keepers
	s.view = s.census.View(now)
	return s.view
}

// Last returns the result of the last evaluation.
func (s *Registry) Last() census.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

// Roll returns the pages of the roll for the other daemons, of at most that many bytes each; none if less than
// rollEvery has passed since the last one.
func (s *Registry) Roll(most int) []census.Roll {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.rolled) < rollEvery {
		return nil
	}
	s.rolled = now
	return s.census.Roll(now).Split(most)
}

// Merge merges the roll of another daemon; nil if it stops.
func (s *Registry) Merge(daemon string, r *census.Roll) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r == nil {
		r = &census.Roll{}
	}
	s.census.Merge(daemon, *r, time.Now())
}

// PlaceOf returns the place of a rank.
func PlaceOf(id census.ID) state.Place {
	return state.Place{Job: id.Job, Rank: id.Rank, World: id.World, Peer: id.Peer}
}
