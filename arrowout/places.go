package arrowout

import (
	"fmt"
	"sync"

	"loaderd/internal/access"
	"loaderd/loader"
)

// places are the ranks of jobs that identities read as. Each is one stream's: a newcomer of the same identity takes the place of the stream before,
// which may be a connection that nobody has told of its end; another identity is refused. Whoever is not known by a name of their own takes no place:
// they may be several, who read what they like.
type places struct {
	mu sync.Mutex
	of map[loader.Place]*holder
}

// holder is the stream that has a place.
type holder struct {
	who string
	end func(error)
}

func newPlaces() *places { return &places{of: map[loader.Place]*holder{}} }

// take takes a place for a stream, which end ends, until left is called.
func (p *places) take(who access.Identity, at loader.Place, end func(error)) (left func(), err error) {
	if who.Name == "" || who.Shared {
		return func() {}, nil
	}
	h := &holder{who.Name, end}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch before := p.of[at]; {
	case before == nil:
	case before.who != who.Name:
		return nil, forbidden(who, fmt.Sprintf("identity %s reads as rank %d of %d of job %s at this moment", before.who, at.Rank, at.World, at.Job))
	default:
		before.end(&loader.Error{Reason: Replaced, Message: fmt.Sprintf("another stream of identity %s reads as rank %d of %d of job %s now", who, at.Rank, at.World, at.Job),
			Do: "let one stream read as each rank of a job; readers that have nothing to do with each other need jobs of their own, such as " + who.Name + "/2"})
	}
	p.of[at] = h
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.of[at] == h {
			delete(p.of, at)
		}
	}, nil
}
