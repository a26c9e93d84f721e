package docstream

import (
	"context"
	"errors"
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
	// unstoredShare is the inverse of the share of documents that may be missing in the token store. A missing document
	// costs a request, and a consumer needs about one for 64 documents.
	unstoredShare = 8
)

// errStoredAhead means that the token store has the next documents.
var errStoredAhead = errors.New("the next documents are in the token store")

// storeReader reads documents for a reader from the token store, without their messages.
type storeReader struct{ *reader }

// readAll reads the documents from next on until most of the next ones are not stored. Each second it checks that the
// stream still has them.
func (r storeReader) readAll(ctx context.Context, lost <-chan nats.Status, tick <-chan time.Time) error {
	for r.canRead(ctx) {
		next := r.unread(chunkDocuments)
		if !r.isStored(next) {
			break
		}
		room, ok := r.requestSize()
		if !ok {
			if err := r.flush(ctx); err != nil {
				return err
			}
			if err := r.awaitChange(ctx, lost, tick); err != nil {
				return err
			}
			continue
		}
		found, _ := r.log.stored.getAll(next, int(min(room, storedBytes)))
		if len(found) == 0 { // they are damaged
			break
		}
		r.setUp()
		if err := r.add(ctx, found); err != nil {
			return errors.Join(err, r.flush(ctx))
		}
		select {
		case <-tick:
			if err := r.refreshStored(ctx); err != nil {
				return errors.Join(err, r.flush(ctx))
			}
		default:
		}
	}
	return r.flush(ctx)
}

// canRead reports whether stored documents are those of the stream. In a stream from which documents were deleted, a
// consumer detects whether one is missing.
func (r storeReader) canRead(ctx context.Context) bool {
	return !r.hasGaps && r.next <= r.Status().Last && r.log.stored.isVerified(ctx) && ctx.Err() == nil
}

// unread returns the sequences from next on that the stream has, at most n.
func (r storeReader) unread(n uint64) []uint64 {
	var sequences []uint64
	for sequence, end := r.next, min(r.next+n, r.Status().Last+1); sequence < end; sequence++ {
		sequences = append(sequences, sequence)
	}
	return sequences
}

// isStored reports whether nearly all of these documents are stored.
func (r storeReader) isStored(sequences []uint64) bool {
	return r.log.stored.documents.Count(sequences) >= len(sequences)-len(sequences)/unstoredShare
}

// isAhead reports whether the reader should leave its consumer to read the token store.
func (r storeReader) isAhead(ctx context.Context) bool {
	next := r.unread(storedAhead)
	return len(next) == storedAhead && r.canRead(ctx) && r.isStored(next)
}

// add adds stored documents to the chunk. It reads the messages of documents between them.
func (r storeReader) add(ctx context.Context, found []tokenstore.Stored) error {
	for i := range found {
		d := &found[i].Document
		for r.next < d.Sequence {
			m, err := r.log.getMessage(ctx, r.next)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				err = r.log.checkGap(ctx, r.next, r.next)
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

// refreshStored checks that the stream has the next documents, and that they are those of the token store.
func (r *reader) refreshStored(ctx context.Context) error {
	if err := r.refreshState(ctx, nil); err != nil {
		return err
	}
	r.log.stored.verify(ctx)
	return nil
}
