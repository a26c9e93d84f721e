package leader

import (
	"log/slog"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
)

// Setup is the configuration and dependencies of a leader.
type Setup struct {
	Name     string // of the run
	Config   runconfig.Config
	Options  backend.Options
	Backends backend.Backends
	Streams  *planview.Streams
	Log      *slog.Logger
	View     *planview.View
	// Observer is a follower in the same process that caches planned documents, because its readers will soon request
	// them.
	Observer DocumentObserver
}

// DocumentObserver receives the documents and steps that a leader plans, in order.
type DocumentObserver interface {
	// OnDocument is called with every used document, before the planner reads it as that arrival.
	OnDocument(ref, arrival uint64, c document.Content)
	// OnStep is called with every completed step.
	OnStep(s *plan.Step)
}
