package docstream

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/tokenstore"
)

const (
	// storedBytes bounds the encoded documents of one read from the token store.
	storedBytes = 256 << 10
	// storedAhead is the number of documents, nearly all stored, for which a reader leaves its consumer.
	storedAhead = 256
	// unstoredShare is the inverse of the share of documents that may be missing in the token store. Each is read by a
	// request, which costs about as much as reading a few documents through a consumer.
	unstoredShare = 8
	// maxDeleted is the largest number of deleted documents whose sequences a reader requests.
	maxDeleted = 1000
	// unknownDeleted is used as the last deleted document if it is unknown.
	unknownDeleted = math.MaxUint64
)

// errStoredAhead means that the token store has the next documents.
var errStoredAhead = errors.New("the next documents are in the token store")

// storeReader reads documents for a reader from the token store, without their messages.
type storeReader struct{ *reader }

// readAll reads the documents from next on until most of the next ones are not stored. At the start and each second it
// checks that the stream still has them. The caller must have refreshed the stream's state.
func (r storeReader) readAll(ctx context.Context, lost <-chan nats.Status, tick <-chan time.Time) error {
	refreshed := true
	for {
		if refreshed && !r.log.stored.verify(ctx) {
			return r.flush(ctx)
		}
		next := r.unread(chunkDocuments, r.last)
		if !r.canRead() || !r.isStored(next) {
			return r.flush(ctx)
		}
		var err error
		if refreshed, err = r.readSome(ctx, next, lost, tick); err != nil {
			return errors.Join(err, r.flush(ctx))
		}
	}
}

// readSome reads some of the documents next, or waits for room. refreshed reports that it has refreshed the stream's
// state.
func (r storeReader) readSome(ctx context.Context, next []uint64, lost <-chan nats.Status,
	tick <-chan time.Time) (refreshed bool, err error) {
	room, ok := r.requestSize()
	if !ok {
		if err := r.flush(ctx); err != nil {
			return false, err
		}
		return r.awaitChange(ctx, lost, tick)
	}
	found, _ := r.log.stored.getAll(next, int(min(room, storedBytes)))
	if len(found) == 0 { // they are damaged
		r.unreadable = next[len(next)-1] + 1
		return false, nil
	}
	r.setUp()
	if err := r.add(ctx, found); err != nil {
		return false, err
	}
	select {
	case <-tick:
		return true, r.refreshState(ctx, nil)
	default:
		return false, ctx.Err()
	}
}

// canRead reports whether the token store may be read. Documents before a deleted one are read by a consumer, which
// detects the loss.
func (r storeReader) canRead() bool { return r.next > r.lastDeleted && r.next >= r.unreadable }

// updateDeleted updates which documents of the stream were deleted, for readers with a token store. state is the
// stream's current state.
func (r *reader) updateDeleted(ctx context.Context, state jetstream.StreamState) error {
	if r.log.stored.documents == nil {
		return nil
	}
	purged, _ := slices.BinarySearch(r.deleted, state.FirstSeq)
	r.deleted = r.deleted[purged:]
	if n := countDeleted(state); n <= maxDeleted && n != uint64(len(r.deleted)) {
		info, err := r.log.requestState(ctx, jetstream.WithDeletedDetails(true))
		if err != nil {
			return err
		}
		state, r.deleted = info.State, info.State.Deleted
		slices.Sort(r.deleted)
	}
	switch n := countDeleted(state); {
	case n == 0:
		r.lastDeleted = 0
	case n == uint64(len(r.deleted)):
		r.lastDeleted = r.deleted[n-1]
	default:
		r.deleted, r.lastDeleted = nil, unknownDeleted
	}
	return nil
}

// countDeleted returns the number of documents that were deleted between the first and the last one of a stream.
func countDeleted(state jetstream.StreamState) uint64 {
	if state.Msgs == 0 {
		return 0
	}
	return state.LastSeq - state.FirstSeq + 1 - state.Msgs
}

// unread returns the sequences from next to last, at most n.
func (r storeReader) unread(n, last uint64) []uint64 {
	var sequences []uint64
	for sequence, end := r.next, min(r.next+n, last+1); sequence < end; sequence++ {
		sequences = append(sequences, sequence)
	}
	return sequences
}

// isStored reports whether nearly all of these documents are stored, and there are any.
func (r storeReader) isStored(sequences []uint64) bool {
	n := len(sequences)
	return n > 0 && r.log.stored.documents.Count(sequences) >= n-n/unstoredShare
}

// isAhead reports whether the reader should leave its consumer to read the token store.
func (r storeReader) isAhead(ctx context.Context) bool {
	next := r.unread(storedAhead, r.Status().Last)
	return len(next) == storedAhead && r.canRead() && r.log.stored.isVerified(ctx) &&
		r.isStored(next[:chunkDocuments]) && r.isStored(next)
}

// add adds stored documents to the chunk, and the documents between them, whose messages it reads. It stops before such
// a message if the budget has no room. One message may exceed the room.
func (r storeReader) add(ctx context.Context, found []tokenstore.Stored) error {
	for i := range found {
		d := &found[i].Document
		for r.next < d.Sequence {
			if _, ok := r.requestSize(); !ok {
				return nil
			}
			m, err := r.log.getMessage(ctx, r.next)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				err = r.log.checkAbsent(ctx, r.next, r.next)
			}
			if err != nil {
				return err
			}
			if err := r.addMessage(ctx, m, m.sequence); err != nil {
				return err
			}
		}
		m := message{sequence: d.Sequence, size: int(d.Bytes()), time: time.Unix(0, d.Stored), stored: d}
		if err := r.addMessage(ctx, &m, m.sequence); err != nil {
			return err
		}
	}
	return nil
}
