package action

import (
	"context"

	"loaderd/arrowout/internal/caller"
	"loaderd/internal/api"
	"loaderd/internal/auth"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
)

// Watcher provides the status and history of the run, which a Run does not have.
type Watcher interface {
	// Status and History return the present values. The content of the results is immutable. The server sets Status.May.
	Status() api.Status
	History() api.History
}

// unwatched is the error of a server without a Watcher.
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

// may returns the names of the actions that an identity may use. It contains mix only if the identity may change the
// mixture.
func (h *Handler) may(who auth.Identity) (names []string) {
	change := asked{change: mixture.Change{Remove: []string{"any"}}}
	for _, a := range h.all {
		if who.Role.Includes(h.needs(a, change)) {
			names = append(names, a.Name)
		}
	}
	return names
}
