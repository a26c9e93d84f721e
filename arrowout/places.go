package arrowout

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"loaderd/internal/access"
	"loaderd/loader/fault"
	"loaderd/loader/state"
)

// places are the ranks of jobs that streams read as. A client that is known by its name, and one that reports what its trainer has taken, has its
// place alone; other callers take none, since several of them may read what they like.
//
// Of a named identity the newest stream has the place: the one before may be a connection whose end the server has not noticed. Another identity is
// refused. Clients without names are told apart by their sessions: a newcomer is refused while the client that has the place reports.
type places struct {
	mu sync.Mutex
	of map[state.Place]*holder
	// silence returns when a client that has a place is given up unless it has reported.
	silence func() <-chan time.Time
}

// duplicateWait is how long a newcomer waits for a report of the client that has its place.
const duplicateWait = 3 * time.Second

// holder is the stream that has a place.
type holder struct {
	who, session, address string
	since                 time.Time
	end                   func(error)
	reported              chan struct{} // closed by the next report
	left                  chan struct{} // closed at its end
}

func newPlaces() *places {
	return &places{of: map[state.Place]*holder{}, silence: func() <-chan time.Time { return time.After(duplicateWait) }}
}

// named reports whether an identity has its own name.
func named(who access.Identity) bool { return who.Name != "" && !who.Shared }

// admit refuses a newcomer whose place a client of another session has that reports.
func (p *places) admit(ctx context.Context, who access.Identity, at state.Place, session string) error {
	if named(who) || session == "" {
		return nil
	}
	p.mu.Lock()
	h := p.of[at]
	var reported chan struct{}
	if h != nil {
		reported = h.reported
	}
	p.mu.Unlock()
	if h == nil || h.session == "" || h.session == session {
		return nil
	}
	select {
	case <-h.left:
		return nil
	case <-p.silence():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-reported:
	}
	return &fault.Error{Reason: fault.DuplicateRank, Message: fmt.Sprintf("another client reads as rank %d of %d of job %q, from %s", at.Rank, at.World, at.Job, h.address),
		Do: "give every process its own rank; processes that share a rank on purpose need different peer numbers",
		Facts: map[string]string{"job": at.Job, "rank": strconv.Itoa(at.Rank), "world": strconv.Itoa(at.World), "address": h.address,
			"since": h.since.UTC().Format(time.RFC3339)}}
}

// report notes a report of a client.
func (p *places) report(at state.Place, session string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.of[at]; h != nil && h.session == session {
		close(h.reported)
		h.reported = make(chan struct{})
	}
}

// take takes a place for a stream, which end ends, until left is called.
func (p *places) take(who access.Identity, at state.Place, session, address string, end func(error)) (left func(), err error) {
	if !named(who) && session == "" {
		return func() {}, nil
	}
	h := &holder{who: who.Name, session: session, address: address, since: time.Now(), end: end, reported: make(chan struct{}), left: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch before := p.of[at]; {
	case before == nil:
	case before.who != who.Name:
		return nil, forbidden(who, fmt.Sprintf("identity %s reads as rank %d of %d of job %s at this moment", before.who, at.Rank, at.World, at.Job))
	case named(who):
		before.end(&fault.Error{Reason: fault.Replaced, Message: fmt.Sprintf("another stream of identity %s reads as rank %d of %d of job %s now", who, at.Rank, at.World, at.Job),
			Do: "let one stream read as each rank of a job; readers that have nothing to do with each other need jobs of their own, such as " + who.Name + "/2"})
	default:
		before.end(&fault.Error{Reason: fault.Replaced, Message: fmt.Sprintf("another stream reads as rank %d of %d of job %q now, from %s",
			at.Rank, at.World, at.Job, address), Do: "let one process read as each rank of a job"})
	}
	p.of[at] = h
	return func() {
		close(h.left)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.of[at] == h {
			delete(p.of, at)
		}
	}, nil
}
