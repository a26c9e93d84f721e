package backend

import "context"

// Elector elects the daemon that leads a run. It only saves work. The plan stays correct if two daemons believe that
// they lead: every append names the position that it expects, and every change of shared state names its term.
type Elector interface {
	// Acquire waits until this daemon leads, or ctx ends.
	Acquire(ctx context.Context) (Lease, error)
}

// Lease is the right to plan a run.
type Lease interface {
	// Verify waits while it is unknown whether the lease is still held. It returns ErrLeadershipLost when another daemon
	// leads.
	Verify(ctx context.Context) error
	// Lost is closed when another daemon leads.
	Lost() <-chan struct{}
	// Close releases the lease, so that another daemon can acquire it at once.
	Close() error
}

// Bus carries messages between the daemons of a run. A message may be lost.
type Bus interface {
	// Publish sends a heartbeat to all daemons.
	Publish(heartbeat []byte) error
	// Subscribe calls f with the heartbeats of all daemons, one after the other, until stop is called.
	Subscribe(f func(heartbeat []byte)) (stop func(), err error)
	// Request sends a request to the leader. It returns ErrNoLeader when no daemon has received it.
	Request(ctx context.Context, request []byte) (response []byte, err error)
	// Serve answers the requests of other daemons with f, several at a time, until stop is called.
	Serve(f func(ctx context.Context, request []byte) (response []byte)) (stop func(), err error)
}
