package loader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/census"
	"loaderd/loader/diagnosis"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/follower"
	"loaderd/loader/internal/cluster"
	"loaderd/loader/internal/leader"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/maintenance"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// Info describes a run to readers.
type Info struct {
	Run string `json:"run"`
	// ID distinguishes runs of the same name: a run that was deleted and created again has another ID. It is
	// empty before the run begins.
	ID          string           `json:"run_id"`
	Fingerprint string           `json:"fingerprint"`
	Config      runconfig.Config `json:"config"`
	Planned     uint64           `json:"planned"` // steps 0 ... Planned-1 can be read
	Ended       bool             `json:"ended"`   // no step follows
	// the checkpoints of all committing jobs cover all steps before this one
	Committed uint64             `json:"committed"`
	Oldest    uint64             `json:"oldest"` // steps before this one are released: their documents may be purged
	Commits   planrecord.Commits `json:"commits"`
	// Skipped is the number of steps that each job has skipped before its last commit.
	Skipped map[string]uint64 `json:"skipped,omitempty"`
	// WorldSizes are those that the ranks of jobs have agreed on during the run.
	WorldSizes planrecord.WorldSizes `json:"world_sizes,omitempty"`
	// Sources are in the order of their numbers, including removed ones.
	Sources []plan.SourceInfo `json:"sources"`
	// FormerNames are names that the run had before its plan was repaired. A client with one of them refers to this run.
	FormerNames []string `json:"was,omitempty"`
	// HasPlan reports that the run has a plan, as far as this process has read.
	HasPlan bool `json:"-"`
	// Daemons are the addresses of all running daemons of the run, as grpc://host:port or grpc+tls://host:port. It is
	// empty if the answering daemon is the only one.
	Daemons []string `json:"daemons,omitempty"`
	// Leader is the address of the daemon that plans the run, from its last heartbeat; empty if unknown.
	Leader string `json:"leader,omitempty"`
	// Schedule has the sizes of the steps by phase, and the phase of the next step.
	Schedule runconfig.Schedule `json:"schedule,omitzero"`
	// Length is the number of steps that the run has or will have; nil while it is unknown.
	Length *state.Length `json:"length,omitempty"`
	// Ahead is the maximum number of steps planned beyond those that readers have requested.
	Ahead int `json:"ahead,omitempty"`
	// Columns are the columns that a ticket may request; the Flight server sets them.
	Columns []string `json:"columns,omitempty"`
}

// Run is one daemon's part in a run: a follower that serves readers, and a leader while this daemon holds the lease.
// The two share the plan and the follower's demand. Open it, call Serve once, and read steps through Readers.
type Run struct {
	name        string
	config      runconfig.Config
	options     backend.Options
	clustered   bool // several daemons may serve the run
	plan        *planview.View
	streams     *planview.Streams
	coordinator *cluster.Coordinator
	follower    *follower.Follower
	worlds      worldSizes
}

// Open reads the plan and restores the planner. It returns an error for a plan of another configuration or algorithm.
// It changes nothing: a new run is created by Serve.
func Open(ctx context.Context, name string, c runconfig.Config, o backend.Options, e backend.Backends) (*Run, error) {
	if bad := c.Validate(); len(bad) > 0 {
		errs := make([]error, len(bad))
		for i, b := range bad {
			errs[i] = b
		}
		return nil, fmt.Errorf("open run %s: %w", name, errors.Join(errs...))
	}
	if err := (planrecord.Term{Daemon: e.Daemon}).Validate(); err != nil {
		return nil, fmt.Errorf("open run %s: %w", name, err)
	}
	c = c.Canonical()
	log := e.Log.With("run", name)
	view := planview.New(e.Plan, c, o)
	streams := planview.NewStreams(e, view)
	f := follower.New(view, c, o, streams, log)
	f.PullStatus = e.PullStatus
	setup := leader.Setup{Name: name, Config: c, Options: o, Backends: e, Streams: streams, Log: log, View: view,
		Observer: f.Assembler}
	coordinator := cluster.New(setup, f.Ranks, f.Assembler)
	f.Leader = coordinator
	f.Assembler.SetPeer(coordinator.Documents())
	if err := coordinator.Open(ctx); err != nil {
		return nil, fmt.Errorf("open run %s: %w", name, err)
	}
	r := &Run{
		name: name, config: c, options: o, clustered: e.Elector != nil, plan: view, streams: streams,
		coordinator: coordinator, follower: f,
	}
	r.worlds = worldSizes{plan: view, follower: f, timeout: o.StallTimeout, request: r.requestLeader, log: log}
	return r, nil
}

// Serve leads the run, or follows the plan of the leading daemon, until ctx is done or the run fails. It returns nil
// if ctx is done. After the end of the stream it continues to answer requests. It must be called once.
func (r *Run) Serve(ctx context.Context) error {
	var telling sync.WaitGroup
	tell, stop := context.WithCancel(ctx)
	telling.Go(func() { r.follower.LogStalls(tell) })
	telling.Go(func() { r.follower.Prefetch.Run(tell) })
	telling.Go(func() { r.follower.DropIdleReaders(tell) })
	err := r.coordinator.Serve(ctx)
	stop()
	telling.Wait()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	failed := err
	if failed == nil {
		failed = &fault.Error{Reason: fault.NotLeading, Message: "the daemon is shutting down",
			Advice: "reconnect when it is back"}
	}
	r.plan.Fail(diagnosis.Failure(failed))
	return err
}

// SetAddress sets the address at which readers reach this daemon, which other daemons announce. It must be called
// before Serve.
func (r *Run) SetAddress(uri string) { r.coordinator.SetAddress(uri) }

// Info returns the current description of the run.
func (r *Run) Info() Info {
	now := r.plan.Snapshot() // first: a plan with steps has begun
	h, begun := r.plan.Header()
	daemons, leader := r.coordinator.Addresses()
	info := Info{Run: r.name, Fingerprint: h.Fingerprint, Config: r.config, Planned: now.Steps, Ended: now.Ended,
		Committed: now.Commits.Committed(), Oldest: now.Oldest, Commits: now.Commits, Skipped: now.Commits.Skipped(),
		HasPlan: begun, Daemons: daemons, Leader: leader, Schedule: r.plan.Schedule(), Length: r.Length(),
		Ahead: r.options.Ahead, WorldSizes: now.WorldSizes}
	if begun {
		info.ID = h.ID
	}
	if info.Sources = r.streams.SourceInfos(); len(info.Sources) == 0 { // the run has not begun
		info.Sources = h.Infos()
	}
	if h.Repair != nil {
		info.FormerNames = h.Repair.PreviousNames
	}
	return info
}

// Join registers a reader that will request steps from step on. It validates rank, world and step. Readers decide how
// far ahead the leader plans, never what it plans.
func (r *Run) Join(place state.RankID, step uint64) (*follower.Reader, error) {
	return r.JoinAs(context.Background(), place, step, state.Client{})
}

// JoinAs is Join with a description of the client. It may wait for other daemons, or for readers with another world
// size to close their streams, until ctx is done.
func (r *Run) JoinAs(ctx context.Context, place state.RankID, step uint64,
	client state.Client) (*follower.Reader, error) {
	if err := r.worlds.await(ctx, place, step); err != nil {
		return nil, err
	}
	reader, err := r.follower.Join(r.name, place, step, client)
	var refused *fault.Error
	if !errors.As(err, &refused) || refused.Reason != fault.StepNotPlanned {
		return reader, err
	}
	// a reader that was connected to another daemon may have seen later steps
	elsewhere, reported := r.coordinator.AwaitReports(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !elsewhere:
		return reader, err
	}
	reader, err = r.follower.Join(r.name, place, step, client)
	if errors.As(err, &refused) && refused.Reason == fault.StepNotPlanned && !reported {
		return nil, follower.LeaderUnknownError(step, r.plan.PlannedSteps())
	}
	return reader, err
}

// Step returns one step of the plan without waiting for it. It returns io.EOF after the end, and a *fault.Error for a
// step that is not planned yet.
func (r *Run) Step(ctx context.Context, step uint64) (*plan.Step, error) {
	return r.plan.Step(ctx, step)
}

// Assemble returns rows [first, first+n) of a step with their documents.
func (r *Run) Assemble(ctx context.Context, s *plan.Step, first, n int) (*assembly.Batch, error) {
	return r.follower.Assemble(ctx, s, first, n)
}

// RecordConsumption records a report of the client that reads at a place, from this daemon or another one.
func (r *Run) RecordConsumption(place state.RankID, c state.Consumption) state.ConsumptionResponse {
	return r.follower.RecordConsumption(place, c)
}

// Ranks returns the ranks of all daemons, as last evaluated.
func (r *Run) Ranks() census.View { return r.follower.Ranks.LastView() }

// Cause returns why a step is not planned yet, as its reader would receive it; nil if it is planned or the run has
// ended.
func (r *Run) Cause(step uint64) *fault.Error { return r.follower.StallCause(step) }

// Verdict describes the state of the run in one sentence, at most a second old.
func (r *Run) Verdict() diagnosis.Verdict { return r.follower.ShownVerdict() }

// HasWaitingRank reports whether a rank waits for a step that is not planned, at most a second old.
func (r *Run) HasWaitingRank() bool { return r.follower.RateSampler.HasWaitingRank() }

// IsLeader reports whether this process leads the run, according to its own state.
func (r *Run) IsLeader() bool { return r.coordinator.Leader() != nil }

// HasLeader reports whether this process leads the run or has received a report of another leader.
func (r *Run) HasLeader() bool { return r.coordinator.HasLeader() }

// Rates returns the current rates of the run.
func (r *Run) Rates() state.Rates { return r.follower.RateSampler.Rates() }

// LookupDocument returns the sequences of the messages that have a producer's id or hold a document with that id, in
// order.
func (r *Run) LookupDocument(ctx context.Context, id string) ([]uint64, error) {
	return r.streams.Lookup(ctx, id)
}

// FindRows calls f with every row of the plan that contains a part of a document, in order.
func (r *Run) FindRows(ctx context.Context, document uint64,
	f func(s *plan.Step, row int, pieces []packonline.Piece) error) error {
	return maintenance.FindRows(ctx, r.plan.Log, document, f)
}

// Describe returns the origin of one document.
func (r *Run) Describe(ctx context.Context, sequence uint64) (document.Info, error) {
	return r.streams.Describe(ctx, sequence)
}

// Seal ends all sources of this run after their current last documents. The pool flushes there and every rank sees the
// same end. It returns the highest sequence of these documents. It is idempotent.
func (r *Run) Seal(ctx context.Context) (uint64, error) { return r.SealBy(ctx, "") }

// SealBy is Seal with the identity of the requester, which the plan records.
func (r *Run) SealBy(ctx context.Context, who string) (uint64, error) {
	if err := validateIdentity(who); err != nil {
		return 0, err
	}
	at, err := r.recordEntry(ctx, planrecord.Seal{Requester: who})
	if l := r.coordinator.Leader(); err == nil && l != nil {
		l.AwaitSealNotice(ctx)
	}
	return at, err
}

// SealSource ends one source after its current last document, and returns that document's sequence. It is idempotent.
// who is the identity of the requester and may be empty.
func (r *Run) SealSource(ctx context.Context, name, who string) (uint64, error) {
	if err := validateIdentity(who); err != nil {
		return 0, err
	}
	limit, cancel := context.WithTimeout(ctx, r.options.StallTimeout)
	defer cancel()
	infos, err := awaitSources(limit, r.plan, r.streams)
	if ctx.Err() == nil && limit.Err() != nil && err != nil {
		err = r.follower.UnansweredCause()
	}
	if err != nil {
		return 0, err
	}
	named := func() int { return slices.IndexFunc(infos, func(s plan.SourceInfo) bool { return s.Name == name }) }
	i := named()
	if i < 0 { // the leading daemon may have just added it
		elsewhere, reported := r.coordinator.AwaitReports(ctx)
		infos = r.streams.SourceInfos()
		if i = named(); i < 0 && elsewhere && !reported {
			return 0, r.follower.UnansweredCause()
		}
	}
	if i < 0 {
		return 0, &fault.Error{Reason: fault.InvalidTicket, Message: fmt.Sprintf("the run has no source %q", name),
			Advice: "name one of " + strings.Join(sourceNames(infos), ", ")}
	}
	return r.recordEntry(ctx, planrecord.SealSource{Source: i, Requester: who})
}

// awaitSources returns the sources of a run. It waits for the run to begin, until ctx is done.
func awaitSources(ctx context.Context, view *planview.View, streams *planview.Streams) ([]plan.SourceInfo, error) {
	for {
		now := view.Snapshot()
		infos := streams.SourceInfos()
		if now.Failure != nil || len(infos) > 0 {
			return infos, now.Failure
		}
		select {
		case <-now.Changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func sourceNames(infos []plan.SourceInfo) (names []string) {
	for _, s := range infos {
		names = append(names, s.Name)
	}
	return names
}

// validateIdentity returns an error for a name that no identity can have.
func validateIdentity(who string) error {
	if err := planrecord.ValidateIdentity(who); err != nil {
		return &fault.Error{Reason: fault.InvalidTicket, Message: err.Error(),
			Advice: "give the identity a name of printable ASCII"}
	}
	return nil
}

// Flush packs all documents in the pool and shuffle window up to the stream's current last document, with padding,
// and continues. Rows that do not fill a step remain buffered.
func (r *Run) Flush(ctx context.Context) (uint64, error) { return r.FlushBy(ctx, "") }

// FlushBy is Flush with the identity of the requester, which the plan records.
func (r *Run) FlushBy(ctx context.Context, who string) (uint64, error) {
	if err := validateIdentity(who); err != nil {
		return 0, err
	}
	return r.recordEntry(ctx, planrecord.Flush{Requester: who})
}

// Commit records that a job's own durable checkpoint covers all steps before step. The first commit of a name
// makes it a job. It is idempotent and monotone: a smaller step than before changes nothing. It returns the lowest
// committed step of all committing jobs.
func (r *Run) Commit(ctx context.Context, job string, step uint64) (committed uint64, err error) {
	return r.RecordCommit(ctx, planrecord.Commit{Job: job, Step: step})
}

// RecordCommit is Commit for a job that may have skipped steps.
func (r *Run) RecordCommit(ctx context.Context, c planrecord.Commit) (committed uint64, err error) {
	if err := planrecord.ValidJob(c.Job); err != nil {
		return 0, &fault.Error{Reason: fault.InvalidTicket, Message: err.Error()}
	}
	if c.Skipped > c.Step {
		return 0, &fault.Error{Reason: fault.InvalidTicket,
			Message: fmt.Sprintf("commit of step %d: %d skipped steps are more than the steps before it", c.Step, c.Skipped),
			Advice:  "count only the skipped steps before the committed one"}
	}
	return r.recordEntry(ctx, c)
}

// SentSteps returns the highest number of steps that any daemon has sent to a reader of the selected jobs: the index of
// that reader's next step. If that is less than step, it waits up to cluster.DemandReportTime for the reports of other
// daemons.
func (r *Run) SentSteps(ctx context.Context, step uint64, of func(job string) bool) (sent uint64) {
	const look = 10 * time.Millisecond
	for began := time.Now(); ; {
		sent = max(r.follower.SentSteps(of), r.coordinator.TotalDemand().SentSteps(of))
		if sent >= step || !r.coordinator.HasPeers() || time.Since(began) >= cluster.DemandReportTime ||
			waiting.Sleep(ctx, look) != nil {
			return sent
		}
	}
}

// Leave records that a job no longer retains documents. It is idempotent.
func (r *Run) Leave(ctx context.Context, job string) (committed uint64, err error) {
	if err := planrecord.ValidJob(job); err != nil {
		return 0, &fault.Error{Reason: fault.InvalidTicket, Message: err.Error()}
	}
	return r.recordEntry(ctx, planrecord.Leave{Job: job})
}

// Checkpoint stores the planner's current state and returns the step with which it continues.
func (r *Run) Checkpoint(ctx context.Context) (uint64, error) { return r.recordEntry(ctx, nil) }

// requestPause is the time between two attempts to reach a leader.
const requestPause = 20 * time.Millisecond

// recordEntry requests from the leader that it records an entry, or takes a checkpoint for nil, and waits for
// Options.Stall at most. An entry that is recorded later does no harm. If the leader changes meanwhile, the request is
// sent to the next one.
func (r *Run) recordEntry(ctx context.Context, e planrecord.Entry) (uint64, error) {
	q := cluster.Request{AfterRecord: r.plan.Position()}
	if e != nil {
		q.Record = planrecord.Encode(e)
	}
	limit, cancel := context.WithTimeout(ctx, r.options.StallTimeout)
	defer cancel()
	if _, flush := e.(planrecord.Flush); flush && r.clustered {
		h, _ := r.plan.Header()
		var err error
		if q.MinArrival, err = r.streams.LastArrival(limit, h); err != nil {
			return 0, err
		}
	}
	a, err := r.requestLeader(ctx, limit, q)
	return a.At, err
}

// requestLeader sends a request to the leader, on any daemon, and retries it until limit is done.
func (r *Run) requestLeader(ctx, limit context.Context, q cluster.Request) (leader.Result, error) {
	for {
		now := r.plan.Snapshot()
		if now.Failure != nil {
			return leader.Result{}, now.Failure
		}
		a, err := r.coordinator.SendRequest(limit, q)
		switch {
		case limit.Err() == nil && errors.Is(err, fault.ErrNoLeader):
		case ctx.Err() != nil:
			return leader.Result{}, ctx.Err()
		case limit.Err() != nil:
			return leader.Result{}, r.follower.UnansweredCause()
		default:
			return a, err
		}
		q.Retry = true
		select {
		case <-time.After(requestPause):
		case <-now.Changed: // the run may have failed
		case <-limit.Done():
		}
	}
}

// Measure requests that the leader counts the steps of the run in the background. The leader reads every remaining
// document again and plans it concurrently with the run. Info reports the progress. Measure returns an error while a
// source is not sealed, and for a run without an end.
func (r *Run) Measure(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, r.options.StallTimeout)
	defer cancel()
	_, err := r.requestLeader(ctx, limit, cluster.Request{Measure: true})
	return err
}

// Length returns how many steps the run has or will have; nil until a leader has reported it.
func (r *Run) Length() *state.Length {
	if now := r.plan.Snapshot(); now.Ended {
		return &state.Length{Steps: now.Steps, Exact: true}
	}
	l := r.coordinator.Length()
	if l != nil && !l.Exact && !l.Endless && !l.Idle { // an estimate may be older than the newest steps
		l.Steps = max(l.Steps, r.plan.Snapshot().Steps)
	}
	return l
}

// Mix changes the mixture: weights, added and removed sources. The change takes effect with the next planned
// document.
func (r *Run) Mix(ctx context.Context, q state.MixRequest) (state.MixResult, error) {
	if err := validateIdentity(q.By); err != nil {
		return state.MixResult{}, err
	}
	if err := errors.Join(q.Validate(), planrecord.ValidateRequestID(q.Request)); err != nil {
		return state.MixResult{}, &fault.Error{Reason: fault.InvalidTicket, Message: err.Error()}
	}
	if q.Request == "" {
		q.Request = rand.Text()
	}
	m := planrecord.Mix{Change: q.Change, Requester: q.By, DecidedStep: q.Decided, RequestID: q.Request}
	a, err := requestControl(ctx, r, m, q.DryRun)
	if err != nil {
		return state.MixResult{}, err
	}
	if a.Mix == nil {
		return state.MixResult{}, &fault.Error{Reason: fault.RunFailed,
			Message: "the leader's answer to a change of the mixture has no mixture", Advice: "run one version on all daemons"}
	}
	result := *a.Mix
	result.Weights = maps.Clone(result.Weights) // the planner retains its own map
	return result, nil
}

// Filter replaces the filter of a source or of all documents. The change takes effect with the next planned document.
// The result is the first step that it can affect.
func (r *Run) Filter(ctx context.Context, q state.FilterRequest) (step uint64, err error) {
	if err := validateIdentity(q.By); err != nil {
		return 0, err
	}
	c := planrecord.Filter{Requester: q.By, Source: q.Source, Where: q.Where}
	if err := c.Validate(); err != nil {
		return 0, &fault.Error{Reason: fault.InvalidTicket, Message: err.Error()}
	}
	a, err := requestControl(ctx, r, c, q.DryRun)
	return a.At, err
}

// ChangeSchedule replaces the phases of the steps that have not begun, or computes what that would do. It returns the
// first step that can differ.
func (r *Run) ChangeSchedule(ctx context.Context, q state.ScheduleRequest) (uint64, error) {
	if err := validateIdentity(q.By); err != nil {
		return 0, err
	}
	if err := planrecord.ValidateRequestID(q.Request); err != nil {
		return 0, &fault.Error{Reason: fault.InvalidTicket, Message: err.Error()}
	}
	if q.Request == "" {
		q.Request = rand.Text()
	}
	record := planrecord.Schedule{Requester: q.By, Phases: q.Phases, RequestID: q.Request}
	a, err := requestControl(ctx, r, record, q.DryRun)
	return a.At, err
}

// requestControl requests a control from the leader, or with dryRun its effect. It rejects a control that is too large.
func requestControl(ctx context.Context, r *Run, c planrecord.Control, dryRun bool) (leader.Result, error) {
	record, err := planrecord.EncodeControl(c)
	if err != nil {
		return leader.Result{}, &fault.Error{Reason: fault.InvalidTicket, Message: err.Error(),
			Advice: "split it into several changes"}
	}
	limit, cancel := context.WithTimeout(ctx, r.options.StallTimeout)
	defer cancel()
	return r.requestLeader(ctx, limit, cluster.Request{Record: record, DryRun: dryRun})
}

// RequestLength requests the number of steps of a run from its leader, over the bus of its daemons; nil while it is
// unknown.
func RequestLength(ctx context.Context, b backend.Bus) (*state.Length, error) {
	return cluster.RequestLength(ctx, b)
}
