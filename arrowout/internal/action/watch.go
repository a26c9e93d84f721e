package action

import (
	"context"

	"loaderd/arrowout/internal/caller"
	"loaderd/internal/api"
	"loaderd/internal/auth"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
)

// Watcher knows how the run does, beyond what a Run tells of itself.
type Watcher interface {
	// Status and History are of this moment. Nobody changes what they hold; of the Status, May is left to the server.
	Status() api.Status
	History() api.History
}

// unwatched is the answer of a server that was given no Watcher.
var unwatched = &fault.Error{Reason: fault.NotLeading, Message: "the daemon does not watch the run yet",
	Do: "ask again"}

func (h *Handler) status(ctx context.Context, _ asked, send func(any) error) error {
	if h.Watcher == nil {
		return unwatched
	}
	status := h.Watcher.Status()
	status.May = h.may(caller.Of(ctx))
	return send(status)
}

func (h *Handler) history(_ context.Context, _ asked, send func(any) error) error {
	if h.Watcher == nil {
		return unwatched
	}
	return send(h.Watcher.History())
}

// may names the actions that an identity may ask for; mix where it may change the mixture, and not only look at it.
func (h *Handler) may(who auth.Identity) (names []string) {
	change := asked{change: mixture.Change{Remove: []string{"any"}}}
	for _, a := range h.all {
		if who.Role.Includes(h.needs(a, change)) {
			names = append(names, a.Name)
		}
	}
	return names
}
