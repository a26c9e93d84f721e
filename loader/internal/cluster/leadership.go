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

// leadership is the leader of this process. It is prepared before the process leads, and plans while that has the
// lease.
type leadership struct {
	setup  leader.Setup
	remote *remoteLeader

	mu     sync.Mutex
	leader *leader.Leader // nil where none is prepared
	leads  bool           // its term has begun
}

// prepare opens the plan with a leader. It refuses a plan that this process could not continue.
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

// want passes the demand of the readers of all daemons to the leader, if one is prepared.
func (s *leadership) want(d state.Demand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader != nil {
		s.leader.Want(d)
	}
}

// present returns the leader while it leads, or where there are no other daemons; else nil.
func (s *leadership) present() *leader.Leader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leads || s.setup.Backends.Elector == nil {
		return s.leader
	}
	return nil
}

// lead plans until ctx is done, another daemon leads, or something fails. prepare prepares a leader again where the
// plan has grown, and answer answers the requests of other daemons. When another daemon leads it returns
// fault.ErrLeadershipLost, also where something else failed because of that.
func (s *leadership) lead(ctx context.Context, lease backend.Lease, prepare func(context.Context) error,
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
	// The plan grows on while the leader before still appends.
	for wait := time.Duration(0); !s.begin(lease); wait = leader.LeadPause {
		if err := waiting.Pause(ctx, wait); err != nil {
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
	err = s.present().Serve(ctx)
	if err != nil && ctx.Err() == nil { // what a later leader has released looks lost to this one
		limit, cancel := context.WithTimeout(ctx, s.setup.Options.Stall)
		defer cancel()
		if sure := lease.Verify(limit); errors.Is(sure, fault.ErrLeadershipLost) {
			return errors.Join(sure, err)
		}
	}
	return err
}

// begin begins the term of the leader that is prepared, unless the plan has grown since: then it would have too much to
// plan again.
func (s *leadership) begin(lease backend.Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leads = s.leader != nil && !s.outdated()
	if s.leads {
		s.leader.VerifyBy(lease.Verify)
	}
	return s.leads
}

// outdated reports whether the plan has grown since the leader was prepared. The caller holds mu.
func (s *leadership) outdated() bool { return s.setup.View.Position() > s.leader.Records() }

// dropOutdated drops a leader that is prepared when the plan has grown without it: it holds as much memory as one that
// leads.
func (s *leadership) dropOutdated() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leads && s.leader != nil && s.outdated() {
		s.leader = nil
	}
}

// end gives the leader up: callers that wait for its results ask the next leader.
func (s *leadership) end() {
	s.mu.Lock()
	l := s.leader
	if l != nil {
		s.remote.succeed(l.Report())
	}
	s.leader, s.leads = nil, false
	s.mu.Unlock()
	if l != nil {
		l.End()
	}
}
