package action

import (
	"context"

	"loaderd/arrowout/internal/batch"
	"loaderd/loader"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// Run is the part of a run that actions use.
type Run interface {
	Steps
	Documents
	Records
	Controls
}

// Steps describes a run and its steps.
type Steps interface {
	// Info describes the run; its Run, Fingerprint and Config never change.
	Info() loader.Info
	// Step returns one step of the plan without waiting, io.EOF after the last one.
	Step(ctx context.Context, step uint64) (*plan.Step, error)
	// Cause returns why a step is not planned yet. It returns nil if the step is planned, or if the run has ended.
	Cause(step uint64) *fault.Error
	// SentSteps returns how many steps were handed to readers of the selected jobs. If that is less than step, it waits
	// for the reports of other daemons.
	SentSteps(ctx context.Context, step uint64, of func(job string) bool) uint64
	// RecordConsumption records what the trainer of a rank has taken.
	RecordConsumption(place state.RankID, c state.Consumption) state.ConsumptionResponse
	// Measure makes the leader count how many steps the run will have; Info reports the progress.
	Measure(ctx context.Context) error
	Stats() loader.Stats
}

// Documents describes the documents of a run.
type Documents interface {
	// Describe returns the origin of one document.
	Describe(ctx context.Context, sequence uint64) (document.Info, error)
	// ViewDocument returns the document with a plan reference in readable form, used or not. Upcoming returns references
	// of the documents that the planner takes next: n of a source, or without a name n of the only source, or the next of
	// each.
	ViewDocument(ctx context.Context, document uint64) (document.View, error)
	NextDocuments(ctx context.Context, source string, n int) ([]uint64, error)
	// LookupDocument returns the sequences of the messages that have a producer's id, or hold a document with that id.
	// Find calls f with every row that holds a part of a document.
	LookupDocument(ctx context.Context, id string) ([]uint64, error)
	FindRows(ctx context.Context, document uint64, f func(s *plan.Step, row int, pieces []packonline.Piece) error) error
	// StreamStates returns the present content of the sources' streams, by source number.
	StreamStates(ctx context.Context) ([]document.StreamState, error)
}

// Records append to the plan, or store the state of the planner.
type Records interface {
	// RecordCommit records that a job's own checkpoint covers all steps before step. Leave records that a job no longer
	// retains documents. Both return the step before which all jobs have committed.
	RecordCommit(ctx context.Context, c planrecord.Commit) (committed uint64, err error)
	Leave(ctx context.Context, job string) (committed uint64, err error)
	// Resize adds the request of a rank that its job has another world size from a step on.
	Resize(ctx context.Context, q state.ResizeRequest) (state.ResizeResult, error)
	// Checkpoint stores the planner's state and returns its step.
	Checkpoint(ctx context.Context) (uint64, error)
}

// Controls change what the run plans next. The plan records who, which is empty if callers have no names.
type Controls interface {
	// SealBy ends the stream after its last document. FlushBy flushes the pool at that document and planning continues.
	// Both return the document's sequence.
	SealBy(ctx context.Context, who string) (uint64, error)
	FlushBy(ctx context.Context, who string) (uint64, error)
	// SealSource ends one source after its last document and returns that document's sequence.
	SealSource(ctx context.Context, name, who string) (uint64, error)
	// Mix changes the mixture of sources, or computes what a change would do.
	Mix(ctx context.Context, q state.MixRequest) (state.MixResult, error)
	// Filter replaces a filter and returns the first step that can differ.
	Filter(ctx context.Context, q state.FilterRequest) (step uint64, err error)
	// ChangeSchedule replaces the phases of the steps that have not begun, or computes what that would do. It returns the
	// first step that can differ.
	ChangeSchedule(ctx context.Context, q state.ScheduleRequest) (uint64, error)
}

// SourcesOf returns the sources of a run.
func SourcesOf(run Run, info loader.Info) *batch.Sources {
	return batch.NewSources(info.Config, info.Sources, func(ctx context.Context, document uint64) []plan.SourceInfo {
		known := run.Info().Sources
		// This daemon has not followed the plan that far; Describe makes it follow.
		if plan.RefSource(document) >= len(known) {
			_, _ = run.Describe(ctx, document)
			known = run.Info().Sources
		}
		return known
	})
}
