package leader

import (
	"log/slog"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
)

// Setup is what a leader is made of.
type Setup struct {
	Name     string // of the run
	Config   runconfig.Config
	Options  backend.Options
	Backends backend.Backends
	Streams  *planview.Streams
	Log      *slog.Logger
	View     *planview.View
	// Observer is a follower in the same process that caches what is planned, as its readers soon request it.
	Observer DocumentObserver
}

// DocumentObserver sees the documents and steps that a leader plans, in their order.
type DocumentObserver interface {
	// OnDocument is called with every document that is used, before the planner sees it as the arrival of that number.
	OnDocument(ref, arrival uint64, c document.Content)
	// OnStep is called with every step that they complete.
	OnStep(s *plan.Step)
}
