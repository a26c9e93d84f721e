package backend

import "log/slog"

// Backends are the external dependencies of a Run.
type Backends struct {
	Sources     Sources
	Plan        PlanLog
	Checkpoints Checkpoints // may be nil
	Log         *slog.Logger
	// Keyed reports that Plan authenticates records with a key. A new plan records it.
	Keyed bool
	// Daemon is the name of this process, which the plan records with each of its terms. It may be empty if no other
	// daemon may serve the run.
	Daemon string
	// Elector and Bus are set if several daemons may serve the run; otherwise nil.
	Elector Elector
	Bus     Bus
	// Tracer receives events of sampled documents; nil disables tracing.
	Tracer Tracer
	// Connection returns the state of the connection to the NATS servers. It may be nil.
	Connection func() Connection
	// PullStatus returns why no documents of a source arrive, and advice, if this process fetches them; ok is false if
	// producers publish them. It may be nil.
	PullStatus func(source string) (why, do string, ok bool)
}
