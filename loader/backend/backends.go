package backend

import "log/slog"

// Backends are the parts of the world that a Run works with.
type Backends struct {
	Sources     Sources
	Plan        PlanLog
	Checkpoints Checkpoints // may be nil
	Log         *slog.Logger
	// Keyed says that Plan authenticates records by a key: a plan that is begun says so.
	Keyed bool
	// Daemon is the name of this process: the plan says who led when. It may be empty where no other daemon may serve the
	// run.
	Daemon string
	// Elector and Bus are set where several daemons may serve the run; else nil.
	Elector Elector
	Bus     Bus
	// Tracer is told of sampled documents; nil: none are.
	Tracer Tracer
	// Connection returns the state of the connection to the servers of the streams. It may be nil.
	Connection func() Connection
	// Supply says why no documents of a source come, and what to do, where this process knows; ok is false where producers
	// bring them. It may be nil.
	Supply func(source string) (why, do string, ok bool)
}
