package backend

import "context"

// Elector elects the daemon that leads a run. It is an optimisation. The plan stays correct if two daemons act as
// leader: every append names the position that it expects, and every change of shared state names its term.
type Elector interface {
	// Acquire blocks until this daemon leads or ctx is done.
	Acquire(ctx context.Context) (Lease, error)
}

// Lease is the right to plan a run.
type Lease interface {
	// Verify blocks while it is unknown whether the lease is still held. It returns ErrLeadershipLost if another daemon
	// leads.
	Verify(ctx context.Context) error
	// Lost returns a channel that is closed when another daemon leads.
	Lost() <-chan struct{}
	// Close releases the lease, so that another daemon can acquire it immediately.
	Close() error
}

// Bus carries messages between the daemons of a run. A message may be lost.
type Bus interface {
	// Publish sends a heartbeat to all daemons.
	Publish(heartbeat []byte) error
	// Subscribe calls f with the heartbeats of all daemons, one at a time, until stop is called.
	Subscribe(f func(heartbeat []byte)) (stop func(), err error)
	// Request sends a request to the leader. It returns ErrNoLeader if no daemon has received it.
	Request(ctx context.Context, request []byte) (response []byte, err error)
	// Serve answers the requests of other daemons with f, which it may call concurrently, until stop is called.
	Serve(f func(ctx context.Context, request []byte) (response []byte)) (stop func(), err error)
}
