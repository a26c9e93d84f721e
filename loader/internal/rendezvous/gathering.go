package rendezvous

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"loaderd/loader/state"
)

// gathering has the equal requests of a job's processes. After the agreement, they are those that have agreed.
type gathering struct {
	target    target
	began     time.Time
	requests  map[process]request
	sessions  map[string]process // places of the requests
	ranks     map[int]int        // number of requests by rank
	agreedAt  time.Time          // zero before the agreement
	restored  bool               // an agreement of a former leader; no request has shown its skips
	refused   string             // the error of the last contradicting request
	refusedAt time.Time
	// missingRanks are the first ranks without a request; nil if they have to be computed.
	missingRanks []int
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
	session, id string
	at          time.Time
}

func newGathering(t target, now time.Time) *gathering {
	return &gathering{target: t, began: now, requests: map[process]request{}, sessions: map[string]process{},
		ranks: map[int]int{}}
}

// isRepeated reports whether a request is one that has agreed, whose answer may be lost, or that of another process of
// its rank. A later call of a client for the same world size and step is not: its ranks have to agree again.
func (g *gathering) isRepeated(q state.ResizeRequest, want target, p process) bool {
	if g.restored && g.target == (target{want.step, want.ranks, ""}) && len(g.requests) == 0 {
		g.target = want
	}
	before, known := g.requests[p]
	return g.target == want && (!known || before.session == q.Session && before.id == q.Request)
}

// add adds the request of a process, or replaces it.
func (g *gathering) add(p process, x request) {
	before, known := g.requests[p]
	if !known {
		g.ranks[p.rank]++
		g.missingRanks = nil
	} else if before.session != x.session {
		delete(g.sessions, before.session)
	}
	g.requests[p], g.sessions[x.session] = x, p
}

// remove removes the request of a process.
func (g *gathering) remove(p process) {
	delete(g.sessions, g.requests[p].session)
	delete(g.requests, p)
	if g.ranks[p.rank]--; g.ranks[p.rank] == 0 {
		delete(g.ranks, p.rank)
	}
	g.missingRanks = nil
}

// expire removes requests that were not repeated, unless the job has agreed.
func (g *gathering) expire(now time.Time) {
	if !g.agreedAt.IsZero() {
		return
	}
	for p, x := range g.requests {
		if now.Sub(x.at) >= requestTimeout {
			g.remove(p)
		}
	}
}

// isOutdated reports whether nothing is left of the gathering.
func (g *gathering) isOutdated(now time.Time) bool {
	if g.agreedAt.IsZero() {
		return len(g.requests) == 0
	}
	return now.Sub(g.agreedAt) >= agreementTimeout
}

// contradicts reports whether a request contradicts those of other processes.
func (g *gathering) contradicts(q state.ResizeRequest, want target) bool {
	before, taken := g.requests[process{q.Rank, q.Peer}]
	return len(g.requests) > 0 && (g.target != want || taken && before.session != q.Session)
}

// describe names what contradicts a request.
func (g *gathering) describe(q state.ResizeRequest, want target) string {
	others := fmt.Sprintf("%s requested %d ranks from step %d", g.rankList(), g.target.ranks, g.target.step)
	switch {
	case g.target.step != want.step || g.target.ranks != want.ranks:
		return others
	case g.target.skips != want.skips:
		return fmt.Sprintf("it skips the steps %s, and %s skipping the steps %s", excerpt(want.skips), others,
			excerpt(g.target.skips))
	}
	return fmt.Sprintf("another process requested to be rank %d", q.Rank)
}

// rankList names the ranks with a request.
func (g *gathering) rankList() string {
	text := "rank"
	for i, rank := range slices.Sorted(maps.Keys(g.ranks)) {
		switch {
		case i == maxListedRanks:
			return text + ", ..."
		case i > 0:
			text += ","
		}
		text += " " + strconv.Itoa(rank)
	}
	return text
}

// missing returns the first ranks without a request.
func (g *gathering) missing() []int {
	if g.missingRanks == nil {
		g.missingRanks = []int{}
		for rank := 0; rank < g.target.ranks && len(g.missingRanks) < maxListedRanks; rank++ {
			if g.ranks[rank] == 0 {
				g.missingRanks = append(g.missingRanks, rank)
			}
		}
	}
	return g.missingRanks
}

// excerpt returns the beginning of a list of steps.
func excerpt(skips string) string {
	const most = 100
	if len(skips) > most {
		return skips[:most] + "..."
	}
	return cmp.Or(skips, "[]")
}
