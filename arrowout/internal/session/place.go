package session

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"loaderd/arrowout/internal/refusal"
	"loaderd/internal/auth"
	"loaderd/loader/fault"
	"loaderd/loader/state"
)

// A place is a rank of a job. A client with a named identity, or one that reports what its trainer has taken, has its
// place exclusively. Other callers take no place, since several of them may read the same rank.
//
// For a named identity the newest stream has the place, because the server may not have noticed the end of the
// previous one. Another identity is refused. Clients without names are distinguished by their ids. A newcomer is
// refused while the client that has the place reports.

// duplicateWait is how long a newcomer waits for a report of the client that has its place.
const duplicateWait = 3 * time.Second

// named reports whether an identity has its own name.
func named(who auth.Identity) bool { return who.Name != "" && !who.Shared }

// takesPlace reports whether a stream has its place exclusively.
func (s *Session) takesPlace() bool { return named(s.Identity) || s.Client != "" }

// awaitPlace returns an error if a client with another id has the newcomer's place and reports.
func (r *Registry) awaitPlace(ctx context.Context, s *Session) error {
	if named(s.Identity) || s.Client == "" {
		return nil
	}
	r.mu.Lock()
	h := r.holders[s.Place]
	var reported chan struct{}
	if h != nil {
		reported = h.reported
	}
	r.mu.Unlock()
	if h == nil || h.Client == "" || h.Client == s.Client {
		return nil
	}
	select {
	case <-h.left:
		return nil
	case <-r.silence():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-reported:
	}
	return &fault.Error{
		Reason: fault.DuplicateRank,
		Message: fmt.Sprintf("another client reads as rank %d of %d of job %q, from %s",
			s.Place.Rank, s.Place.World, s.Place.Job, h.Address),
		Do: "give every process its own rank; processes that share a rank on purpose need different peer numbers",
		Facts: map[string]string{
			"job": s.Place.Job, "rank": strconv.Itoa(s.Place.Rank), "world": strconv.Itoa(s.Place.World), "address": h.Address,
			"since": h.began.UTC().Format(time.RFC3339),
		},
	}
}

// takePlace assigns the place to a stream. It returns the stream that had it before, nil for none. The caller holds
// mu.
func (r *Registry) takePlace(s *Session) (before *Session, err error) {
	if !s.takesPlace() {
		return nil, nil
	}
	before = r.holders[s.Place]
	if before != nil && before.Identity.Name != s.Identity.Name {
		return nil, refusal.Forbidden(s.Identity, fmt.Sprintf("identity %s reads as rank %d of %d of job %s at this moment",
			before.Identity.Name, s.Place.Rank, s.Place.World, s.Place.Job))
	}
	r.holders[s.Place] = s
	return before, nil
}

// replaced returns the error of the stream whose place s takes.
func (s *Session) replaced() *fault.Error {
	at, who := s.Place, s.Identity
	if named(who) {
		return &fault.Error{
			Reason: fault.Replaced,
			Message: fmt.Sprintf("another stream of identity %s reads as rank %d of %d of job %s now",
				who, at.Rank, at.World, at.Job),
			Do: "let one stream read as each rank of a job; readers that have nothing to do with each other need jobs of " +
				"their own, such as " + who.Name + "/2",
		}
	}
	return &fault.Error{
		Reason: fault.Replaced,
		Message: fmt.Sprintf("another stream reads as rank %d of %d of job %q now, from %s",
			at.Rank, at.World, at.Job, s.Address),
		Do: "let one process read as each rank of a job",
	}
}

// Report records a report of the client with the given id that reads at a place.
func (r *Registry) Report(at state.Place, client string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.holders[at]; h != nil && h.Client == client {
		close(h.reported)
		h.reported = make(chan struct{})
	}
}
