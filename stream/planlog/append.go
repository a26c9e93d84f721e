package planlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"loaderd/loader/fault"
	"loaderd/stream/conn"
	"loaderd/stream/mac"
	"loaderd/stream/messages"
)

// appendBytes bounds the records of one atomic batch.
const appendBytes = 64 << 20

// minStoreRate is how many bytes per second a server under load syncs. Larger appends get a longer time limit.
const minStoreRate = 4 << 20

// appendHeader marks the first record of every append with an id that no other writer has. If the acknowledgement of
// an append is lost, the id identifies the writer of the stored record, because another planner of the same run may
// write equal records.
const appendHeader = "Loaderd-Append"

// Append adds the records after position last, all or none. More than 1,000 records or 64 MiB are stored in several
// such groups, in order. It returns fault.ErrLeadershipLost if records of another writer are stored there, and
// conn.ErrFull if the plan's bound is reached.
//
//	what happens                          stored           what Append does
//	the server refuses                    nothing          returns the cause
//	it refuses and lags (cluster)         nothing          retries until it can read the record at this position
//	no connection when sending, or        nothing          retries until ctx ends
//	the stream has no leader
//	connection lost before the response   all or nothing   reads back: done, retries, or leadership lost
//	a late response                       all or nothing   the same; a late copy fails on its expected position
//	the process fails                     all or nothing   the next process reads the log's end
func (l *Log) Append(ctx context.Context, last uint64, records ...[]byte) error {
	if l.readOnly {
		return fmt.Errorf("append to %s: it was opened for reading", l.name)
	}
	limit := l.MaxRecord()
	for i, r := range records {
		if len(r) > limit {
			return fmt.Errorf("append to %s: record %d has %d bytes: the server takes %d", l.name, i, len(r), limit)
		}
	}
	codes, err := l.recordMACs(ctx, last, records)
	if err != nil {
		return fmt.Errorf("append to %s behind %d: %w", l.name, last, err)
	}
	for len(records) > 0 {
		n, size := 0, 0
		for n < len(records) && n < messages.MaxBatch && (n == 0 || size+len(records[n]) <= appendBytes) {
			size += len(records[n])
			n++
		}
		var own []string
		if codes != nil {
			own, codes = codes[:n], codes[n:]
		}
		if err := l.appendGroup(ctx, last, records[:n], own); err != nil {
			return fmt.Errorf("append to %s behind %d: %w", l.name, last, err)
		}
		last, records = last+uint64(n), records[n:]
		l.observeEnd(last)
	}
	return nil
}

// appendGroup stores records or reports that it cannot. unsure is set while an earlier attempt may have been stored
// or may still be stored.
func (l *Log) appendGroup(ctx context.Context, last uint64, records [][]byte, codes []string) error {
	id := nuid.Next()
	wait := l.store.Backoff()
	began, storing, unsure := time.Now(), storeTime(records), false
	for attempt := 1; ; attempt++ {
		err := l.store.Attempt(ctx, l.store.NextTimeout(began)+storing, func(ctx context.Context) error {
			return l.send(ctx, id, last, records, codes, attempt > 1)
		})
		switch {
		case err == nil:
			return nil
		case conn.IsWrongLastSequence(err) && !unsure && !l.store.Clustered():
			// otherwise a lagging server may refuse what another server stores
			return fmt.Errorf("%w (%w)", fault.ErrLeadershipLost, err)
		case conn.IsWrongLastSequence(err):
			if stored, err := l.readBack(ctx, id, last, records, began); stored || err != nil {
				return err
			}
		case conn.IsTransient(err) || ctx.Err() != nil:
			// no server received it
			unsure = unsure || !errors.Is(err, nats.ErrReconnectBufExceeded) && !errors.Is(err, nats.ErrNoResponders)
			if attempt == 1 {
				l.store.Log().Warn("the plan log does not answer, trying again", "stream", l.name, "behind", last, "error", err)
			}
		case errors.Is(err, conn.ErrFull):
			return fmt.Errorf("%w: raise stream.plan_bytes, or the storage limit of the account or server", err)
		default:
			return err
		}
		if err := l.store.Pause(ctx, wait.NextBackOff(), err); err != nil {
			if unsure {
				return fmt.Errorf("%w; whether it was stored is unknown", err)
			}
			return err
		}
		if !unsure {
			continue
		}
		if stored, err := l.readBack(ctx, id, last, records, began); stored || err != nil {
			return err
		}
	}
}

// storeTime returns how long the slowest store takes to sync records.
func storeTime(records [][]byte) (d time.Duration) {
	for _, r := range records {
		d += time.Duration(len(r)) * time.Second / minStoreRate
	}
	return d
}

// lagTimeout is how long the servers of a cluster may report an end of the log before records that they have
// acknowledged. A leader that is cut off does so until it learns of the next leader, or until the connection
// moves to another server.
const lagTimeout = time.Minute

// mayBeLagging reports whether a lagging server may be the cause of a log that ends too early.
func (l *Log) mayBeLagging(began time.Time) bool {
	return l.store.Clustered() && time.Since(began) < lagTimeout
}

// readBack reports whether an earlier attempt stored the records. Records of another writer in their place mean that
// leadership is lost.
func (l *Log) readBack(ctx context.Context, id string, last uint64, records [][]byte, began time.Time) (bool, error) {
	end, err := l.Last(ctx)
	if err != nil {
		return false, err
	}
	if end == last {
		return false, nil
	}
	if end < last {
		if l.mayBeLagging(began) {
			return false, nil
		}
		return false, fmt.Errorf("%w: the log ends at %d already", fault.ErrLeadershipLost, end)
	}
	first, err := l.recordHeader(ctx, last+1, appendHeader)
	if err != nil {
		return false, err
	}
	if first != id {
		return false, fmt.Errorf("%w: record %d is not ours", fault.ErrLeadershipLost, last+1)
	}
	// The end of the log advances record by record while the server commits a batch, until the whole batch is stored.
	wait := l.store.Backoff()
	for attempt := 1; end < last+uint64(len(records)); attempt++ {
		if err := l.store.Pause(ctx, wait.NextBackOff(), fmt.Errorf("the server is storing the batch, so far to %d",
			end)); err != nil {
			return false, err
		}
		if end, err = l.Last(ctx); err != nil {
			return false, err
		}
	}
	same, err := l.hasRecords(ctx, last, records)
	if err == nil && !same {
		err = fmt.Errorf("what was stored behind %d differs from what was sent", last)
	}
	return same, err
}

// send makes one attempt. A careful one obtains the server's reason for a refusal, at the cost of one more response.
func (l *Log) send(ctx context.Context, id string, last uint64, records [][]byte, codes []string, careful bool) error {
	batch := make([]*nats.Msg, len(records))
	for i, r := range records {
		batch[i] = nats.NewMsg(l.subject)
		batch[i].Data = r
		if codes != nil {
			batch[i].Header.Set(mac.Header, codes[i])
		}
	}
	first := batch[0].Header
	first.Set(appendHeader, id)
	first.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(last, 10))
	first.Set(jetstream.ExpectedStreamHeader, l.name)
	_, err := messages.Commit(ctx, l.store.Client, careful, batch...)
	return conn.AsFull(err)
}
