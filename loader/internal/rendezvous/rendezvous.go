// Package rendezvous collects the requests of a job's ranks for another world size until all of them agree.
//
// The package is pure: the time is an argument, and it has no goroutine and no lock.
package rendezvous

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"loaderd/loader/fault"
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
	// maxRequests is the maximum number of requests of all jobs.
	maxRequests = 65_536
)

// Rendezvous has the requests of all jobs. The zero value has none.
type Rendezvous struct{ jobs map[string]*gathering }

// gathering has the equal requests of a job's processes. After the agreement, they are those that have agreed.
type gathering struct {
	target    target
	requests  map[process]request
	agreedAt  time.Time // zero before the agreement
	refused   string    // the error of the last contradicting request
	refusedAt time.Time
}

// target is what the processes of a job have to agree on.
type target struct {
	step  uint64
	ranks int
	skips string
}

// process is a process in the new world size.
type process struct{ rank, peer int }

// request is the last request of a process.
type request struct {
	session string
	at      time.Time
}

// Join adds a request, which its process repeats until Agreed. The caller then records the world size and calls Agree,
// unless recorded is true. Join returns a *fault.Error if a process of the job requests something else.
func (r *Rendezvous) Join(q state.ResizeRequest, now time.Time) (result state.ResizeResult, recorded bool, err error) {
	r.expire(now)
	g, want, p := r.jobs[q.Job], target{q.Step, q.World, q.Skips}, process{q.Rank, q.Peer}
	if g != nil && !g.agreedAt.IsZero() {
		if before, known := g.requests[p]; g.target == want && (!known || before.session == q.Session) {
			g.requests[p] = request{q.Session, now} // a repeated request, or that of another process of the rank
			return state.ResizeResult{Agreed: true}, true, nil
		}
		g = nil
	}
	if g != nil {
		g.remove(q.Session)
		if err := g.check(q, want, p, now); err != nil {
			return state.ResizeResult{}, false, err
		}
	}
	if g == nil || len(g.requests) == 0 {
		if g == nil || g.target != want {
			g = &gathering{target: want, requests: map[process]request{}}
		}
		if r.jobs == nil {
			r.jobs = map[string]*gathering{}
		}
		r.jobs[q.Job] = g
	}
	if r.count() >= maxRequests {
		return state.ResizeResult{}, false, &fault.Error{Reason: fault.Limited,
			Message: fmt.Sprintf("%d ranks already wait for another world size", maxRequests), Advice: "try again later"}
	}
	g.requests[p] = request{q.Session, now}
	result.Missing, result.MissingCount = g.missing()
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

// Withdraw removes the request of a client, unless its job has agreed.
func (r *Rendezvous) Withdraw(q state.ResizeRequest) {
	if g := r.jobs[q.Job]; g != nil && g.agreedAt.IsZero() {
		g.remove(q.Session)
	}
}

// CheckRestart returns a *fault.Error if the ranks of a job agree on a world size, or have agreed just now.
func (r *Rendezvous) CheckRestart(q state.ResizeRequest, now time.Time) error {
	r.expire(now)
	g := r.jobs[q.Job]
	if g == nil || g.target.ranks == q.World || !g.agreedAt.IsZero() && now.Sub(g.agreedAt) >= SettleTime {
		return nil
	}
	return conflict(q, fmt.Sprintf("its ranks change the world size to %d from step %d", g.target.ranks, g.target.step))
}

// expire removes requests that were not repeated, and old agreements.
func (r *Rendezvous) expire(now time.Time) {
	for job, g := range r.jobs {
		if g.agreedAt.IsZero() {
			maps.DeleteFunc(g.requests, func(_ process, x request) bool { return now.Sub(x.at) >= requestTimeout })
		}
		if len(g.requests) == 0 || !g.agreedAt.IsZero() && now.Sub(g.agreedAt) >= agreementTimeout {
			delete(r.jobs, job)
		}
	}
}

func (r *Rendezvous) count() (n int) {
	for _, g := range r.jobs {
		n += len(g.requests)
	}
	return n
}

// remove removes the request of a client.
func (g *gathering) remove(session string) {
	maps.DeleteFunc(g.requests, func(_ process, x request) bool { return x.session == session })
}

// check returns the error of a request that contradicts those of other processes, and notes it for them.
func (g *gathering) check(q state.ResizeRequest, want target, p process, now time.Time) error {
	if len(g.requests) == 0 {
		return nil
	}
	others := fmt.Sprintf("%s requested %d ranks from step %d", g.ranks(), g.target.ranks, g.target.step)
	_, taken := g.requests[p]
	switch {
	case g.target.step != want.step || g.target.ranks != want.ranks:
	case g.target.skips != want.skips:
		others = fmt.Sprintf("it skips the steps %s, and %s skipping the steps %s", excerpt(want.skips), others,
			excerpt(g.target.skips))
	case taken:
		others = fmt.Sprintf("another process requested to be rank %d", q.Rank)
	default:
		return nil
	}
	err := conflict(q, others)
	g.refused, g.refusedAt = err.Message, now
	return err
}

// ranks names the ranks with a request.
func (g *gathering) ranks() string {
	numbers := slices.SortedFunc(maps.Keys(g.requests), func(a, b process) int { return cmp.Compare(a.rank, b.rank) })
	text, n := "rank", 0
	for i, p := range numbers {
		if i > 0 && numbers[i-1].rank == p.rank {
			continue
		}
		if n++; n > maxListedRanks {
			return text + ", ..."
		} else if n > 1 {
			text += ","
		}
		text += " " + strconv.Itoa(p.rank)
	}
	return text
}

// missing returns the first ranks without a request, and the number of such ranks.
func (g *gathering) missing() (first []int, n int) {
	present := map[int]bool{}
	for p := range g.requests {
		present[p.rank] = true
	}
	for rank := 0; rank < g.target.ranks && len(first) < maxListedRanks; rank++ {
		if !present[rank] {
			first = append(first, rank)
		}
	}
	return first, g.target.ranks - len(present)
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

// excerpt returns the beginning of a list of steps.
func excerpt(skips string) string {
	const most = 100
	if len(skips) > most {
		return skips[:most] + "..."
	}
	return cmp.Or(skips, "[]")
}
