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

// duplicateTimeout is how long a newcomer waits for a report of the client that has its place.
const duplicateTimeout = 3 * time.Second

// hasOwnName reports whether an identity has its own name.
func hasOwnName(who auth.Identity) bool { return who.Name != "" && !who.Shared }

// isExclusive reports whether a stream has its place exclusively.
func (s *Session) isExclusive() bool { return hasOwnName(s.Identity) || s.Client != "" }

// awaitRank returns an error if a client with another id has the newcomer's place and reports.
func (r *Registry) awaitRank(ctx context.Context, s *Session) error {
	if hasOwnName(s.Identity) || s.Client == "" {
		return nil
	}
	r.mu.Lock()
	h := r.rankHolders[s.RankID]
	var reported chan struct{}
	if h != nil {
		reported = h.reported
	}
	r.mu.Unlock()
	if h == nil || h.Client == "" || h.Client == s.Client {
		return nil
	}
	select {
	case <-h.done:
		return nil
	case <-r.duplicateTimer():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-reported:
	}
	return &fault.Error{
		Reason: fault.DuplicateRank,
		Message: fmt.Sprintf("another client reads as rank %d of %d of job %q, from %s",
			s.RankID.Rank, s.RankID.World, s.RankID.Job, h.Address),
		Advice: "assign a different rank to every process; processes that share a rank on purpose need different " +
			"peer numbers",
		Facts: map[string]string{
			"job": s.RankID.Job, "rank": strconv.Itoa(s.RankID.Rank), "world": strconv.Itoa(s.RankID.World),
			"address": h.Address,
			"since":   h.startedAt.UTC().Format(time.RFC3339),
		},
	}
}

// takeRank assigns the place to a stream. It returns the stream that had it before, nil for none. The caller holds
// mu.
func (r *Registry) takeRank(s *Session) (before *Session, err error) {
	if !s.isExclusive() {
		return nil, nil
	}
	before = r.rankHolders[s.RankID]
	if before != nil && before.Identity.Name != s.Identity.Name {
		return nil, refusal.Forbidden(s.Identity, fmt.Sprintf("identity %s currently reads as rank %d of %d of job %s",
			before.Identity.Name, s.RankID.Rank, s.RankID.World, s.RankID.Job))
	}
	r.rankHolders[s.RankID] = s
	return before, nil
}

// replacedError returns the error of the stream whose place s takes.
func (s *Session) replacedError() *fault.Error {
	at, who := s.RankID, s.Identity
	if hasOwnName(who) {
		return &fault.Error{
			Reason: fault.Replaced,
			Message: fmt.Sprintf("another stream of identity %s currently reads as rank %d of %d of job %s",
				who, at.Rank, at.World, at.Job),
			Advice: "open one stream per rank of a job; unrelated readers need separate jobs, such as " + who.Name + "/2",
		}
	}
	return &fault.Error{
		Reason: fault.Replaced,
		Message: fmt.Sprintf("another stream currently reads as rank %d of %d of job %q, from %s",
			at.Rank, at.World, at.Job, s.Address),
		Advice: "use one process per rank of a job",
	}
}

// RecordReport records a report of the client with the given id that reads at a place.
func (r *Registry) RecordReport(at state.RankID, client string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.rankHolders[at]; h != nil && h.Client == client {
		close(h.reported)
		h.reported = make(chan struct{})
	}
}
