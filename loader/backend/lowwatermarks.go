package backend

import "context"

// LowWatermarks is where the runs of one document stream record what they still need. What a term records is refused
// with ErrLeadershipLost once a later one has claimed to speak for the run.
type LowWatermarks interface {
	// Begin records, before the first record of the run's plan, that it will need the documents from sequence from on. It
	// returns the first document that is not given up. A run that has begun is refused with ErrLeadershipLost.
	Begin(ctx context.Context, from uint64) (first uint64, err error)
	// Claim makes a term the one that speaks for the run, which needs the documents from sequence from on, as far as they
	// are not given up. It returns the first of them.
	Claim(ctx context.Context, term, from uint64) (first uint64, err error)
	// Release gives up the documents below sequence from, removes those that no run needs, and returns the first sequence
	// that the stream still holds.
	Release(ctx context.Context, term, from uint64) (first uint64, err error)
	// Ends records that this run reads no document behind sequence at.
	Ends(ctx context.Context, term, at uint64) error
	// Tell tells those who publish to the stream which runs read it, and where those end that have said so.
	Tell(ctx context.Context) error
	// Report reports to producers what the run accepts of the stream, how far it has read and what it skipped. It is
	// advice.
	Report(ctx context.Context, now Intake) error
}

// Values of Options.Release.
const (
	ReleaseKeep  = "keep"
	ReleasePurge = "purge"
)
