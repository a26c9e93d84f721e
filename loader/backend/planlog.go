package backend

import "context"

// PlanLog is an append-only log of records with positions 1, 2, 3, ... and a single writer.
type PlanLog interface {
	// Append adds the records after position last, all or none. It returns ErrLeadershipLost if the log's end is
	// elsewhere, because another process writes this run. It resolves errors that leave open whether the records were
	// stored.
	Append(ctx context.Context, last uint64, records ...[]byte) error
	// Last returns the position of the last record, 0 for an empty log.
	Last(ctx context.Context) (uint64, error)
	// Get returns the record at a position.
	Get(ctx context.Context, position uint64) ([]byte, error)
	// Scan calls f with every record from position from to the current last one, in order.
	Scan(ctx context.Context, from uint64, f func(position uint64, record []byte) error) error
	// MaxRecord returns the size in bytes of the largest record that Append accepts.
	MaxRecord() int
}
