package action

import (
	"context"

	"loaderd/arrowout/internal/caller"
	"loaderd/internal/api"
	"loaderd/internal/auth"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/runconfig"
)

// StatusProvider provides the status and history of the run, which a Run does not have.
type StatusProvider interface {
	// Status and History return the present values. The content of the results is immutable. The server sets Status.May.
	Status() api.Status
	History() api.History
}

// errNoStatus is the error of a server without a Watcher.
var errNoStatus = &fault.Error{Reason: fault.NotLeading, Message: "the daemon does not monitor the run yet",
	Advice: "ask again"}

func (h *Handler) status(ctx context.Context, _ requestBody, send func(any) error) error {
	if h.StatusProvider == nil {
		return errNoStatus
	}
	status := h.StatusProvider.Status()
	status.AllowedActions = h.permittedActions(caller.Identity(ctx))
	return send(status)
}

func (h *Handler) history(_ context.Context, _ requestBody, send func(any) error) error {
	if h.StatusProvider == nil {
		return errNoStatus
	}
	return send(h.StatusProvider.History())
}

// permittedActions returns the names of the actions that an identity may use. It contains mix, filter and schedule
// only if the identity may change what they show.
func (h *Handler) permittedActions(who auth.Identity) (names []string) {
	change := requestBody{change: mixture.Change{Remove: []string{"any"}}, where: new(string),
		phases: make([]runconfig.Phase, 1)}
	for _, a := range h.allActions {
		if who.Role.Includes(h.requiredRole(a, change)) {
			names = append(names, a.Name)
		}
	}
	return names
}
