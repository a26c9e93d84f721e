// Package rendezvous collects the requests of a job's ranks for another world size until all of them agree.
//
// The package is pure: the time is an argument, and it has no goroutine and no lock.
package rendezvous

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"loaderd/loader/fault"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// SettleTime is the time after an agreement in which its ranks open their streams, and no process can start the job
// with another world size.
const SettleTime = 5 * time.Second

const (
	// requestTimeout is the time after which a request that is not repeated has no effect.
	requestTimeout = 5 * time.Second
	// agreementTimeout is the time for which an agreement is remembered. Within it, the ranks repeat their requests and
	// open their streams.
	agreementTimeout = time.Minute
	// maxListedRanks is the maximum number of ranks in a result or message.
	maxListedRanks = 8
	// maxListedJobs is the maximum number of jobs in Pending.
	maxListedJobs = 16
	// maxRequests is the maximum number of requests of all jobs.
	maxRequests = 65_536
	// expiryInterval is the interval at which outdated requests of all jobs are removed. Those of a job are also removed
	// before they affect a result.
	expiryInterval = time.Second
)

// Rendezvous has the requests of all jobs. The zero value has none.
type Rendezvous struct {
	jobs      map[string]*gathering
	expiredAt time.Time
}

// Restore adds the world sizes of a plan as agreements of the moment at which a leader has begun. Ranks that have not
// received the answer of the former leader repeat their requests, and ranks open their streams again.
func (r *Rendezvous) Restore(sizes planrecord.WorldSizes, began, now time.Time) {
	if now.Sub(began) >= agreementTimeout {
		return
	}
	for job, size := range sizes {
		g := newGathering(target{step: size.Step, ranks: size.Ranks}, began)
		g.restored, g.agreedAt = true, began
		r.put(job, g)
	}
}

// Join adds a request, which its process repeats until Agreed. The caller then records the world size and calls Agree,
// unless recorded is true. Join returns a *fault.Error if a process of the job requests something else.
func (r *Rendezvous) Join(q state.ResizeRequest, now time.Time) (result state.ResizeResult, recorded bool, err error) {
	g, want, p := r.current(q.Job, now), target{q.Step, q.World, q.Skips}, process{q.Rank, q.Peer}
	if g != nil && !g.agreedAt.IsZero() {
		if g.isRepeated(q, want, p) {
			if r.count() < maxRequests {
				g.add(p, request{q.Session, q.Request, now})
			}
			return state.ResizeResult{Agreed: true}, true, nil
		}
		g = nil
	}
	if g != nil {
		if before, ok := g.sessions[q.Session]; ok && (before != p || g.target != want) {
			g.remove(before)
		}
		if g.contradicts(q, want) {
			g.expire(now)
		}
		if g.contradicts(q, want) {
			err := conflict(q, g.describe(q, want))
			g.refused, g.refusedAt = err.Message, now
			return state.ResizeResult{}, false, err
		}
	}
	if g == nil || g.target != want {
		g = newGathering(want, now)
	}
	if _, repeated := g.requests[p]; !repeated && r.count() >= maxRequests {
		return state.ResizeResult{}, false, &fault.Error{Reason: fault.Limited,
			Message: fmt.Sprintf("%d ranks already wait for another world size", maxRequests), Advice: "try again later"}
	}
	r.put(q.Job, g)
	g.add(p, request{q.Session, q.Request, now})
	if len(g.ranks) == want.ranks {
		g.expire(now)
	}
	result.Missing, result.MissingCount = g.missing(), want.ranks-len(g.ranks)
	result.Agreed = result.MissingCount == 0
	if now.Sub(g.refusedAt) < requestTimeout {
		result.Refused = g.refused
	}
	return result, false, nil
}

// Agree marks the requests of a job as agreed.
func (r *Rendezvous) Agree(job string, now time.Time) {
	if g := r.jobs[job]; g != nil {
		g.agreedAt = now
	}
}

// Withdraw removes the request of a client. It returns true, without an effect, if its job has agreed meanwhile.
func (r *Rendezvous) Withdraw(q state.ResizeRequest) (agreed bool) {
	g := r.jobs[q.Job]
	if g == nil {
		return false
	}
	if !g.agreedAt.IsZero() {
		x, known := g.requests[process{q.Rank, q.Peer}]
		return known && x.session == q.Session && x.id == q.Request && g.target == target{q.Step, q.World, q.Skips}
	}
	if p, ok := g.sessions[q.Session]; ok {
		g.remove(p)
	}
	return false
}

// Pending returns the first changes of world sizes, by job, that wait for ranks.
func (r *Rendezvous) Pending(now time.Time) (all []state.PendingResize) {
	for _, job := range slices.Sorted(maps.Keys(r.jobs)) {
		g := r.jobs[job]
		if g.expire(now); !g.agreedAt.IsZero() || g.isOutdated(now) {
			continue
		}
		joined := slices.Sorted(maps.Keys(g.ranks))
		all = append(all, state.PendingResize{Job: job, World: g.target.ranks, Step: g.target.step, Since: g.began,
			Joined: joined[:min(len(joined), maxListedRanks)], JoinedCount: len(joined),
			Missing: g.missing(), MissingCount: g.target.ranks - len(joined)})
		if len(all) == maxListedJobs {
			break
		}
	}
	return all
}

// CheckRestart returns a *fault.Error if the ranks of a job agree on a world size, or have agreed just now.
func (r *Rendezvous) CheckRestart(q state.ResizeRequest, now time.Time) error {
	g := r.current(q.Job, now)
	if g == nil {
		return nil
	}
	settled := !g.agreedAt.IsZero() && now.Sub(g.agreedAt) >= SettleTime
	if g.expire(now); g.isOutdated(now) || settled || g.target.ranks == q.World {
		return nil
	}
	return conflict(q, fmt.Sprintf("its ranks change the world size to %d from step %d", g.target.ranks, g.target.step))
}

// current returns the requests of a job, or its agreement; nil for none.
func (r *Rendezvous) current(job string, now time.Time) *gathering {
	if now.Sub(r.expiredAt) >= expiryInterval {
		r.expiredAt = now
		for job, g := range r.jobs {
			if g.expire(now); g.isOutdated(now) {
				delete(r.jobs, job)
			}
		}
	}
	if g := r.jobs[job]; g != nil && !g.isOutdated(now) {
		return g
	}
	return nil
}

func (r *Rendezvous) put(job string, g *gathering) {
	if r.jobs == nil {
		r.jobs = map[string]*gathering{}
	}
	r.jobs[job] = g
}

func (r *Rendezvous) count() (n int) {
	for _, g := range r.jobs {
		n += len(g.requests)
	}
	return n
}

func conflict(q state.ResizeRequest, others string) *fault.Error {
	return &fault.Error{Reason: fault.WorldConflict,
		Message: fmt.Sprintf("rank %d of %d of job %q cannot read from step %d: %s", q.Rank, q.World, q.JobName(), q.Step,
			others),
		Advice: "request the same step, world size and skipped steps on every rank, each with its own rank; or stop the " +
			"other ranks",
		Facts: map[string]string{"job": q.JobName(), "rank": strconv.Itoa(q.Rank), "world": strconv.Itoa(q.World),
			"step": strconv.FormatUint(q.Step, 10)}}
}
