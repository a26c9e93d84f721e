package backend

import "context"

// LowWatermarks is the store in which the runs of one document stream record what they still need. Records of a term
// are rejected with ErrLeadershipLost once a later term has claimed the run.
type LowWatermarks interface {
	// Register records, before the first record of the run's plan, that it will need the documents from sequence from on.
	// It returns the first document that is not released. For a run that has begun it returns ErrLeadershipLost.
	Register(ctx context.Context, from uint64) (first uint64, err error)
	// Claim gives a term the exclusive right to record for the run, which needs the unreleased documents from sequence
	// from on. It returns the first of them.
	Claim(ctx context.Context, term, from uint64) (first uint64, err error)
	// Advance marks the documents below sequence from as unneeded, purges those that no run needs, and returns the first
	// sequence that the stream still holds.
	Advance(ctx context.Context, term, from uint64) (first uint64, err error)
	// RecordEnd records that this run reads no document after sequence at.
	RecordEnd(ctx context.Context, term, at uint64) error
	// NotifyProducers notifies the stream's producers which runs read it, and of the recorded ends of these runs.
	NotifyProducers(ctx context.Context) error
	// ReportIntake reports to producers what the run accepts from the stream, how far it has read and what it skipped. It
	// is advisory.
	ReportIntake(ctx context.Context, now Intake) error
}

// Values of Options.Release.
const (
	RetentionKeep  = "keep"
	RetentionPurge = "purge"
)
