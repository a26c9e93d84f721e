package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/internal/leader"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/state"
)

// leadership owns the leader of this process. The leader is prepared before the process holds the lease, and plans
// while it holds the lease.
type leadership struct {
	setup  leader.Setup
	remote *remoteLeader

	mu      sync.Mutex
	leader  *leader.Leader // nil if none is prepared
	leading bool           // its term has begun
}

// prepare opens the plan with a leader. It returns an error for a plan that this process could not continue.
func (s *leadership) prepare(ctx context.Context) error {
	l := leader.New(s.setup)
	if err := l.Open(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leader = l
	return nil
}

// setDemand passes the demand of the readers of all daemons to the leader, if one is prepared.
func (s *leadership) setDemand(d state.Demand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader != nil {
		s.leader.SetDemand(d)
	}
}

// current returns the leader while this process leads, or if the run has only one daemon; otherwise nil.
func (s *leadership) current() *leader.Leader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leading || s.setup.Backends.Elector == nil {
		return s.leader
	}
	return nil
}

// leadRun plans until ctx is done, another daemon leads, or an error occurs. prepare prepares the leader again if the
// plan has grown, and answer answers the requests of other daemons. lead returns fault.ErrLeadershipLost if another
// daemon leads, even if that caused another error first.
func (s *leadership) leadRun(ctx context.Context, lease backend.Lease, prepare func(context.Context) error,
	answer func(context.Context, []byte) []byte) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	deposed := make(chan struct{})
	go func() {
		select {
		case <-lease.Lost():
			close(deposed)
			stop()
		case <-ctx.Done():
		}
	}()
	defer func() {
		select {
		case <-deposed:
			err = fault.ErrLeadershipLost
		default:
		}
	}()
	// The plan grows while the previous leader still appends.
	for wait := time.Duration(0); !s.startTerm(lease); wait = leader.RetryPause {
		if err := waiting.Sleep(ctx, wait); err != nil {
			return err
		}
		if err := prepare(ctx); err != nil {
			return err
		}
	}
	unsubscribe, err := s.setup.Backends.Bus.Serve(answer)
	if err != nil {
		return err
	}
	defer unsubscribe()
	err = s.current().Serve(ctx)
	if err != nil && ctx.Err() == nil { // documents purged by a later leader look lost to this one
		limit, cancel := context.WithTimeout(ctx, s.setup.Options.StallTimeout)
		defer cancel()
		if sure := lease.Verify(limit); errors.Is(sure, fault.ErrLeadershipLost) {
			return errors.Join(sure, err)
		}
	}
	return err
}

// startTerm starts the term of the prepared leader. It returns false if the plan has grown since the leader was
// prepared, because the replay would take too long.
func (s *leadership) startTerm(lease backend.Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leading = s.leader != nil && !s.isOutdated()
	if s.leading {
		s.leader.SetLeaseVerifier(lease.Verify)
	}
	return s.leading
}

// isOutdated reports whether the plan has grown since the leader was prepared. The caller holds mu.
func (s *leadership) isOutdated() bool { return s.setup.View.Position() > s.leader.Records() }

// dropOutdated drops the prepared leader if the plan has grown without it. A prepared leader uses as much memory as
// one that leads.
func (s *leadership) dropOutdated() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leading && s.leader != nil && s.isOutdated() {
		s.leader = nil
	}
}

// dropLeader drops the leader. Callers that wait for its results send their requests to the next leader.
func (s *leadership) dropLeader() {
	s.mu.Lock()
	l := s.leader
	if l != nil {
		s.remote.startFrom(l.Report())
	}
	s.leader, s.leading = nil, false
	s.mu.Unlock()
	if l != nil {
		l.EndTerm()
	}
}
