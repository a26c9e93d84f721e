package action

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"loaderd/arrowout/internal/refusal"
	"loaderd/arrowout/internal/tally"
	"loaderd/internal/auth"
	"loaderd/loader"
)

const (
	// recordsPerSecond is how many commits, leaves, requests of a rank 0 to resize a job, seals, flushes, changes of the
	// mixture and checkpoints an identity may request, beyond a burst. Each rank of a large job may commit at the same
	// moment.
	recordsPerSecond = 100
	recordsBurst     = 2048
	// maxSearches is how many searches for documents may run at the same time, maxSearchesPerIdentity how many of one
	// identity. Each search reads a large part of the plan.
	maxSearches            = 4
	maxSearchesPerIdentity = 1
	// searchesPerSecond is how many searches an identity may request, beyond a burst.
	searchesPerSecond = 2
	searchesBurst     = 20
	// scrapesPerSecond is how many requests for metrics an identity may make, beyond a burst. Each collects all metrics.
	scrapesPerSecond = 10
	scrapesBurst     = 100
)

// limits bound the resources that the actions of identities use.
type limits struct {
	mu                        sync.Mutex
	committingJobsPerIdentity int

	byIdentity   map[string]*usage // by name of the identity
	openSearches int
	lastCleanup  time.Time
}

// usage is what the actions of one identity use.
type usage struct {
	searches                     int
	commits                      map[string]int // jobs of open commits and resizes, with the number of calls of each
	recordLimiter, searchLimiter *rate.Limiter
	scrapeLimiter                *rate.Limiter
	lastUsed                     time.Time
}

func newLimits(committingJobsPerIdentity int) *limits {
	l := &limits{byIdentity: map[string]*usage{}}
	l.set(committingJobsPerIdentity)
	return l
}

// set changes the limits. Usage above a new limit continues until it ends.
func (l *limits) set(committingJobsPerIdentity int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committingJobsPerIdentity = committingJobsPerIdentity
}

// usageOf returns the usage of an identity. Identities without recent usage are removed. The caller holds mu.
func (l *limits) usageOf(who auth.Identity) *usage {
	now := time.Now()
	if now.Sub(l.lastCleanup) > time.Minute {
		l.lastCleanup = now
		for name, u := range l.byIdentity {
			if u.searches == 0 && len(u.commits) == 0 && now.Sub(u.lastUsed) > time.Minute {
				delete(l.byIdentity, name)
			}
		}
	}
	u := l.byIdentity[who.Name]
	if u == nil {
		u = &usage{commits: map[string]int{}, recordLimiter: rate.NewLimiter(recordsPerSecond, recordsBurst),
			searchLimiter: rate.NewLimiter(searchesPerSecond, searchesBurst), scrapeLimiter: rate.NewLimiter(scrapesPerSecond,
				scrapesBurst)}
		l.byIdentity[who.Name] = u
	}
	u.lastUsed = now
	return u
}

// job counts a commit or a change of the world size of a job until done is called, for an identity that may commit only
// for its own jobs. A job without either counts as an additional one of the identity.
func (l *limits) job(who auth.Identity, job string, run loader.Info) (done func(), err error) {
	if who.Role.Includes(auth.Operate) {
		return func() {}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.usageOf(who)
	own := map[string]struct{}{}
	for name := range run.Commits {
		if who.MayCommitFor(name) {
			own[name] = struct{}{}
		}
	}
	for name := range run.WorldSizes {
		if who.MayCommitFor(name) {
			own[name] = struct{}{}
		}
	}
	for name := range u.commits {
		own[name] = struct{}{}
	}
	if _, known := own[job]; !known && len(own) >= l.committingJobsPerIdentity {
		e := refusal.Limited(fmt.Sprintf("committing or resized jobs of identity %s "+
			"(flight.max_committing_jobs_per_identity)", who), l.committingJobsPerIdentity)
		e.Advice = "use an existing job, or remove a job first (action leave)"
		return nil, e
	}
	u.commits[job]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		tally.Decrement(u.commits, job)
	}, nil
}

// countAction counts an action of an identity until done is called.
func (l *limits) countAction(who auth.Identity, name string, c cost) (done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.usageOf(who)
	switch c {
	case costRecord:
		if !u.recordLimiter.Allow() {
			return nil, refusal.Limited(fmt.Sprintf("%s and similar actions of identity %s per second", name, who),
				recordsPerSecond)
		}
	case costScrape:
		if !u.scrapeLimiter.Allow() {
			return nil, refusal.Limited(fmt.Sprintf("%s of identity %s per second", name, who), scrapesPerSecond)
		}
	case costSearch:
		switch {
		case l.openSearches >= maxSearches:
			return nil, refusal.Limited("searches for documents at the same time", maxSearches)
		case u.searches >= maxSearchesPerIdentity:
			return nil, refusal.Limited(fmt.Sprintf("searches of identity %s at the same time", who), maxSearchesPerIdentity)
		case !u.searchLimiter.Allow():
			return nil, refusal.Limited(fmt.Sprintf("searches of identity %s per second", who), searchesPerSecond)
		}
		l.openSearches, u.searches = l.openSearches+1, u.searches+1
		return func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.openSearches, u.searches = l.openSearches-1, u.searches-1
		}, nil
	}
	return func() {}, nil
}
