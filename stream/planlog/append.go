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

// slowestStore is what a server under load syncs in bytes a second: an answer is given up later for more bytes.
const slowestStore = 4 << 20

// appendHeader marks the first record of every append with an id that no other writer has. It tells, after an append
// whose acknowledgement was lost, whose record stands there: another planner of the same run may well write equal
// records.
const appendHeader = "Loaderd-Append"

// Append adds the records behind position last, all or none (more than 1,000 records or 64 MiB: in several such groups,
// in order). It returns fault.ErrLeadershipLost when somebody else's records are there, conn.ErrFull when the plan's
// bound is reached.
//
//	what happens                          what the log holds   what Append does
//	the server refuses                    nothing of ours      returns the cause
//	it refuses, and is behind (cluster)   nothing of ours      tries again, until the record in the place of ours is read
//	no connection when sending, or        nothing of ours      tries again until ctx ends
//	nobody who leads the stream
//	connection lost before the answer     all or nothing       reads back: done, tries again, or deposed
//	an answer too late                    all or nothing       the same; a copy that lands later fails on its expected position
//	the process dies                      all or nothing       the next process reads the log's end
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
	codes, err := l.codes(ctx, last, records)
	if err != nil {
		return fmt.Errorf("append to %s behind %d: %w", l.name, last, err)
	}
	for len(records) > 0 {
		n, size := 0, 0
		for n < len(records) && n < messages.MaxCommit && (n == 0 || size+len(records[n]) <= appendBytes) {
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
		l.learn(last)
	}
	return nil
}

// appendGroup stores records or finds that it cannot. unsure is set while an earlier attempt may have been stored or
// may still be.
func (l *Log) appendGroup(ctx context.Context, last uint64, records [][]byte, codes []string) error {
	id := nuid.Next()
	wait := l.store.Backoff()
	began, storing, unsure := time.Now(), storeTime(records), false
	for attempt := 1; ; attempt++ {
		err := l.store.Attempt(ctx, l.store.Limit(began)+storing, func(ctx context.Context) error {
			return l.send(ctx, id, last, records, codes, attempt > 1)
		})
		switch {
		case err == nil:
			return nil
		case conn.WrongLast(err) && !unsure && !l.store.Clustered():
			// else it may be the word of a server that is behind, beside one that stores ours
			return fmt.Errorf("%w (%w)", fault.ErrLeadershipLost, err)
		case conn.WrongLast(err):
			if stored, err := l.readBack(ctx, id, last, records, began); stored || err != nil {
				return err
			}
		case conn.Transient(err) || ctx.Err() != nil:
			// nobody got it
			unsure = unsure || !errors.Is(err, nats.ErrReconnectBufExceeded) && !errors.Is(err, nats.ErrNoResponders)
			if attempt == 1 {
				l.store.Log().Warn("the plan log does not answer, trying again", "stream", l.name, "behind", last, "error", err)
			}
		case errors.Is(err, conn.ErrFull):
			return fmt.Errorf("%w: raise stream.plan_bytes", err)
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

// storeTime returns how long the slowest store takes for records.
func storeTime(records [][]byte) (d time.Duration) {
	for _, r := range records {
		d += time.Duration(len(r)) * time.Second / slowestStore
	}
	return d
}

// shortFor is for how long the servers of a cluster may say that a log ends before what they have acknowledged: a
// leader that is cut off says so until it learns of the next one, or the connection has left it.
const shortFor = time.Minute

// doubted says whether a log that ends too early may be the word of a server that is behind.
func (l *Log) doubted(began time.Time) bool {
	return l.store.Clustered() && time.Since(began) < shortFor
}

// readBack says whether an earlier attempt stored the records. Someone else's records in their place mean deposed.
func (l *Log) readBack(ctx context.Context, id string, last uint64, records [][]byte, began time.Time) (bool, error) {
	end, err := l.Last(ctx)
	if err != nil {
		return false, err
	}
	if end == last {
		return false, nil
	}
	if end < last {
		if l.doubted(began) {
			return false, nil
		}
		return false, fmt.Errorf("%w: the log ends at %d already", fault.ErrLeadershipLost, end)
	}
	first, err := l.header(ctx, last+1, appendHeader)
	if err != nil {
		return false, err
	}
	if first != id {
		return false, fmt.Errorf("%w: record %d is not ours", fault.ErrLeadershipLost, last+1)
	}
	// The end of the log moves record by record while the server commits a batch; the batch is all there in the end.
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
	same, err := l.equal(ctx, last, records)
	if err == nil && !same {
		err = fmt.Errorf("what was stored behind %d differs from what was sent", last)
	}
	return same, err
}

// send makes one attempt. A careful one finds out why the server refuses, at the price of one more answer.
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
