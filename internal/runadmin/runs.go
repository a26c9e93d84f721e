// Package runadmin works on the runs over a document stream without their daemons: it forks, audits and repairs them,
// and returns how they pack.
package runadmin

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"loaderd/loader/backend"
	"loaderd/loader/maintenance"
	"loaderd/loader/mixture"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
	"loaderd/stream"
	"loaderd/stream/checkpoints"
	"loaderd/stream/docstream"
	"loaderd/stream/planlog"
	"loaderd/stream/retention"
)

// Fork starts run name at the start of a step of another run, with a separate configuration. It returns the headers
// of both. It replays the other run up to that step, which tokenizes the documents again.
func Fork(ctx context.Context, store *stream.Store, run string, step uint64, name string, c runconfig.Config,
	tokens docstream.Tokenization) (forked, from planrecord.Header, err error) {
	parent, err := planlog.OpenReadOnly(ctx, store, run)
	if err != nil {
		return forked, from, fmt.Errorf("fork run %s: %w", run, err)
	}
	if from, err = planview.ReadHeader(ctx, parent); err != nil {
		return forked, from, fmt.Errorf("fork run %s: %w", run, err)
	}
	if forked, from, err = fork(ctx, store, parent, from, step, name, c, tokens); err != nil {
		err = fmt.Errorf("fork run %s: %w", run, err)
	}
	return forked, from, err
}

func fork(ctx context.Context, store *stream.Store, parent *planlog.Log, from planrecord.Header, step uint64,
	name string, c runconfig.Config, tokens docstream.Tokenization) (forked, _ planrecord.Header, err error) {
	to, fresh, err := openFork(ctx, store, name, c)
	if err != nil {
		return forked, from, err
	}
	if fresh { // from here on no run releases documents that the fork may need
		for _, s := range from.Infos() {
			x, err := to.Sources.Open(ctx, s.Name, s.Config)
			if err == nil {
				_, err = x.LowWatermarks.Register(ctx, 1)
			}
			if err != nil {
				return forked, from, fmt.Errorf("source %s: %w", s.Name, err)
			}
		}
	}
	old := backend.Backends{Plan: parent, Sources: sources{store: store,
		tokens: tokens.WithSharedEncoders(store.Config().Workers),
		config: from.Config}}
	if old.Checkpoints, err = checkpoints.Open(ctx, parent); err != nil {
		return forked, from, err
	}
	if forked, from, err = maintenance.Fork(ctx, old, step, name, c); err != nil {
		return forked, from, err
	}
	return forked, from, maintenance.CreateFork(ctx, to, forked)
}

// openFork opens the state of a new fork. fresh reports whether no run of that name exists.
func openFork(ctx context.Context, store *stream.Store, name string,
	c runconfig.Config) (e backend.Backends, fresh bool, err error) {
	if e, err = openNewRun(ctx, store, name, c); err != nil {
		return e, false, err
	}
	last, err := e.Plan.Last(ctx)
	return e, last == 0, err
}

// openNewRun opens the state of a new run.
func openNewRun(ctx context.Context, store *stream.Store, name string,
	c runconfig.Config) (e backend.Backends, err error) {
	plan, err := planlog.Open(ctx, store, name)
	if err != nil {
		return e, err
	}
	e.Plan, e.Keyed = plan, plan.Keyed()
	e.Sources = sources{store: store, config: c, plan: plan}
	e.Checkpoints, err = checkpoints.Open(ctx, plan)
	return e, err
}

// Audit replays a run and compares; see loader.Audit. Packing hints are determined by the run's own configuration.
// progress receives the state of the audit at intervals.
func Audit(ctx context.Context, store *stream.Store, run string, tokens docstream.Tokenization, t runconfig.Tokenizer,
	progress func(maintenance.AuditResult)) (maintenance.AuditResult, error) {
	log, err := planlog.OpenReadOnly(ctx, store, run)
	if err != nil {
		return maintenance.AuditResult{}, fmt.Errorf("audit run %s: %w", run, err)
	}
	h, err := planview.ReadHeader(ctx, log)
	if err != nil {
		return maintenance.AuditResult{}, fmt.Errorf("audit run %s: %w", run, err)
	}
	e := backend.Backends{Plan: log, Log: store.Log(),
		Sources: sources{store: store, tokens: tokens.WithSharedEncoders(store.Config().Workers), config: h.Config}}
	return maintenance.Audit(ctx, e, t, progress)
}

// sources opens the streams of a run for reading. It implements backend.Sources.
type sources struct {
	store  *stream.Store
	tokens docstream.Tokenization
	config runconfig.Config
	plan   *planlog.Log // of a new run, whose low watermarks are written; otherwise nil
}

// Open implements backend.Sources.
func (s sources) Open(ctx context.Context, name string, c mixture.Source) (backend.Stream, error) {
	tokens := s.tokens
	if s.plan == nil { // for a new run only the state of its streams is read
		tokens.Hints, tokens.Documents, tokens.Seed = s.config.SourcePacking(c).SimilarityConfig(), s.config.Documents,
			s.config.Seed
	}
	store := s.store.Source(name, len(s.config.Sources))
	docs, err := docstream.OpenReadOnly(ctx, store, tokens)
	if err != nil || s.plan == nil {
		return backend.Stream{Documents: docs}, err
	}
	lowWatermarks, err := retention.Open(ctx, s.plan, store)
	return backend.Stream{Documents: docs, LowWatermarks: lowWatermarks}, err
}

// ErrConfigDiffers reports that the runs over a stream have different packing settings or sources.
var ErrConfigDiffers = errors.New("differ in packing or sources")

// SharedConfig returns the configuration of the runs over the stream, which must agree in packing and sources, and
// their names. If any of several runs is not sealed, only the
// unsealed ones count. It returns nil without a run, and if this user may not list runs.
func SharedConfig(ctx context.Context, store *stream.Store) (own *runconfig.Config, names []string, err error) {
	runs, err := retention.Runs(ctx, store)
	if err != nil {
		return nil, nil, nil // the stream does not exist, which a read of it reports better, or this user may not list runs
	}
	if open := slices.DeleteFunc(slices.Clone(runs), func(r retention.ReadingRun) bool {
		return r.Sealed
	}); len(open) > 0 {
		runs = open
	}
	for _, r := range runs {
		log, err := planlog.OpenReadOnly(ctx, store, r.Run)
		if err != nil {
			return nil, nil, err
		}
		h, err := planview.ReadHeader(ctx, log)
		if err != nil {
			return nil, nil, fmt.Errorf("read the configuration of run %s: %w", r.Run, err)
		}
		names = append(names, r.Run)
		if own != nil && (!reflect.DeepEqual(own.Packing, h.Config.Packing) ||
			!reflect.DeepEqual(own.Sources, h.Config.Sources) || !reflect.DeepEqual(own.Mix, h.Config.Mix)) {
			return nil, nil, fmt.Errorf("runs %s %w", strings.Join(names, " and "), ErrConfigDiffers)
		}
		own = &h.Config
	}
	return own, names, nil
}
