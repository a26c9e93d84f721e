package loader_test

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"loaderd/loader/fault"
	"loaderd/loader/planrecord"
)

// TestModelOfDaemons runs the operations of TestModel on either of two daemons of a run, with failovers at any time.
// The deposed leader is notified, is in doubt, or continues to plan until an append is refused.
func TestModelOfDaemons(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		inBubble(t, func(t *testing.T) {
			m := newMachine(t, rt, 2)
			defer m.stopAll()
			rt.Repeat(map[string]func(*rapid.T){
				"":               m.either(m.check),
				"publish":        m.publish,
				"read":           m.either(m.read),
				"report":         m.either(m.report),
				"join":           m.either(m.join),
				"read on":        m.either(m.readOn),
				"leave a reader": m.either(m.part),
				"commit":         m.either(m.commit),
				"leave":          m.either(m.leave),
				"flush":          m.either(m.flush),
				"seal":           m.either(m.seal),
				"release":        m.either(m.release),
				"checkpoint":     m.either(m.checkpoint),
				"spoil":          m.spoil,
				"restart":        m.either(m.restart),
				"kill":           m.either(m.kill),
				"light the fuse": m.either(m.fuse),
				"depose":         m.depose,
				"wait":           m.wait,
				"fork":           m.either(m.fork),
				"audit":          m.either(m.audit),
				"mix":            m.either(m.mix),
				"filter":         m.either(m.filter),
				"schedule":       m.either(m.schedule),
				"seal a source":  m.either(m.sealSource),
				"end a stream":   m.endStream,
			})
		})
	})
}

// inBubble runs a part of a property with a fake clock, which advances when everything waits.
func inBubble(t *testing.T, f func(t *testing.T)) {
	var failed any
	synctest.Test(t, func(t *testing.T) {
		defer func() { failed = recover() }() // rapid reports a failed property by a panic
		f(t)
	})
	if failed != nil {
		panic(failed)
	}
}

// mortalBus delivers the messages of a process until it is killed.
type mortalBus struct {
	*testCluster
	killed *atomic.Bool
}

func (b mortalBus) Publish(word []byte) error {
	if b.killed.Load() {
		return nil
	}
	return b.testCluster.Publish(word)
}

// daemon returns the name of the current incarnation of the process.
func (p *process) daemon() string { return fmt.Sprintf("daemon %d/%d", p.number, p.lives) }

// either runs an operation on one of the daemons, after it has caught up with the plan.
func (m *machine) either(act func(*rapid.T)) func(*rapid.T) {
	return func(rt *rapid.T) {
		m.process = m.crew[rapid.IntRange(0, len(m.crew)-1).Draw(rt, "daemon")]
		m.settle(rt)
		act(rt)
	}
}

// ignorant reports whether the process believes that it leads although the plan holds a later term.
func (m *machine) ignorant() bool { return m.cluster != nil && m.unaware(m.process) }

func (m *machine) unaware(p *process) bool {
	if p.run == nil || !p.run.IsLeader() {
		return false
	}
	_, who := m.fixture.terms()
	return len(who) > 0 && who[len(who)-1] != p.daemon()
}

// settle waits until the process has caught up with the plan, or has lost the lease without noticing. A killed
// process is restarted.
func (m *machine) settle(rt *rapid.T) {
	if m.cluster == nil {
		return
	}
	for range 5000 {
		select {
		case err := <-m.served:
			m.served <- err
			m.died(rt, err)
			return
		default:
		}
		if !m.run.Stats().Replaying && (m.ignorant() || m.upToDate(rt)) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	info := m.run.Info()
	rt.Fatalf("%s does not know what the plan holds: %d steps, committing jobs %v, ended %v, leads %v", m.daemon(),
		info.Planned,
		info.Commits, info.Ended, m.run.IsLeader())
}

// upToDate reports whether the process has caught up with the plan.
func (m *machine) upToDate(rt *rapid.T) bool {
	m.fixture.plan.mu.Lock()
	records := slices.Clone(m.fixture.plan.records)
	m.fixture.plan.mu.Unlock()
	var steps uint64
	var parts planrecord.StepJoiner
	commits, ended := planrecord.Commits{}, false
	for _, b := range records {
		e, err := planrecord.Decode(b)
		if err != nil {
			rt.Fatal(err)
		}
		switch e := e.(type) {
		case planrecord.StepPart:
			s, err := parts.Add(e)
			if err != nil {
				rt.Fatal(err)
			}
			if s != nil {
				steps = s.Index + 1
			}
		case planrecord.Commit, planrecord.Leave:
			commits = commits.WithEntry(e)
		case planrecord.End:
			ended = true
		}
	}
	info := m.run.Info()
	return len(records) > 0 && info.Planned >= steps && maps.Equal(info.Commits, commits) && (info.Ended || !ended)
}

// depose takes the lease away from the current leader.
func (m *machine) depose(rt *rapid.T) {
	losses := []leaseLoss{lossReported, lossSuspected, lossUnnoticed}
	m.cluster.depose(rapid.SampledFrom(losses).Draw(rt, "loss of the lease"))
}

// wait lets time pass, so that the daemons receive heartbeats and forget silent daemons.
func (m *machine) wait(rt *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(1, 5000).Draw(rt, "milliseconds")) * time.Millisecond)
}

// blind reports whether a process lost the lease without noticing. Its responses without a record may be outdated.
func (m *machine) blind() bool {
	return m.cluster != nil && m.cluster.blinded && slices.ContainsFunc(m.crew, m.unaware)
}

// lost reports whether another process was killed.
func (m *machine) lost() bool {
	return slices.ContainsFunc(m.crew, func(p *process) bool {
		p.life.mu.Lock()
		defer p.life.mu.Unlock()
		return p != m.process && p.life.dead
	})
}

// released reports whether a step was refused because all jobs have committed it and another daemon has purged it.
func (m *machine) released(err error, step uint64) bool {
	return m.cluster != nil && reason(err) == fault.StepPurged && step < m.most
}
