package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
	"loaderd/stream/messages"
)

// committer commits batches one at a time. Only the publisher's goroutine uses it.
//
// Exactness. After any doubt unsure is set: a late acknowledgement, a lost connection, or the start of a publisher
// whose predecessor may have been killed during a batch. The committer then reads back which ids are in the stream.
// It sends the remaining messages with the last sequence that it saw on its subject as the expected one. If a batch
// in flight is stored in between, the server rejects the attempt, and the committer reads back again. A document is
// therefore never stored twice, however long the doubt lasts, and independent of the server's deduplication window.
type committer struct {
	p                 *Publisher
	atomic            bool   // the stream accepts atomic batches
	attemptSize       int    // messages of the next attempt: shrinks while the stream is nearly full
	singleLeft        int    // messages to send one by one, so that the server identifies the one that it rejects
	last              uint64 // messages of the subject up to this sequence are counted, or their ids are in known
	known             ids    // ids that a read back found and that Publish has not offered again yet
	uncertain         bool   // the last attempt may or may not have been stored: read back before the next
	incompleteBatches int    // consecutive batches rejected as incomplete
	savedAt           time.Time
	dirty             map[*Record]struct{} // records that changed since they were saved
	followed          map[*Record]struct{} // records that follow the documents of other inputs
	followedAt        time.Time
}

// maxIncompleteBatches is how many rejections as incomplete are retried before messages are sent one by one. The server
// reports the cause only for single messages.
const maxIncompleteBatches = 3

// commitBatch commits b and the records that it touches.
func (c *committer) commitBatch(ctx context.Context, b batch) error {
	pending := make([]entry, 0, len(b.entries))
	for _, e := range b.entries {
		switch {
		case e.message == nil:
		case e.duplicate:
			c.countRepeat(0)
		default:
			pending = append(pending, e)
		}
	}
	if err := c.commitMessages(ctx, pending); err != nil {
		return err
	}
	return c.recordBatch(ctx, b)
}

func (c *committer) commitMessages(ctx context.Context, pending []entry) (err error) {
	wait := c.p.newProgressBackoff()
	defer func() { wait.finish(err) }()
	for len(pending) > 0 {
		rest, fence, problem, err := c.prepareSend(ctx, pending)
		if err != nil {
			return err
		}
		if problem != "" {
			if err := wait.pause(ctx, problem); err != nil {
				return err
			}
			continue
		}
		pending = rest
		if len(pending) == 0 {
			return nil
		}
		n := min(c.attemptSize, len(pending))
		if !c.atomic || c.singleLeft > 0 {
			n = 1
		}
		a, err := c.send(ctx, pending[:n], fence)
		if err == nil {
			c.recordAck(pending[:n], a)
			pending = pending[n:]
			wait.resume()
			continue
		}
		if err := c.handleFailure(ctx, err, pending, n, wait); err != nil {
			return err
		}
	}
	return nil
}

// prepareSend returns which of pending are still to be sent, and the sequence that must then be the last of the
// subject, or noFence. While that cannot be determined, it returns the problem as text. The caller must then wait and
// call it again. An error is final.
func (c *committer) prepareSend(ctx context.Context,
	pending []entry) (rest []entry, fence int64, problem string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, "", err
	}
	switch c.p.store.Conn().Status() {
	case nats.CONNECTED:
	case nats.CLOSED:
		return nil, 0, "", nats.ErrConnectionClosed
	default:
		c.uncertain = true
		return nil, 0, "the connection to NATS is lost", nil
	}
	if !c.uncertain {
		if len(c.known) > 0 {
			pending = c.dropStored(pending, nil, c.last)
		}
		return pending, noFence, "", nil
	}
	found, last, err := c.p.readBack(ctx, c.last)
	if err != nil {
		return nil, 0, "read back: " + err.Error(), nil
	}
	return c.dropStored(pending, found, last), int64(last), "", nil
}

// handleFailure decides how to continue after a failed attempt to send the first n of pending. It returns nil if
// another attempt must be made, after it has waited and adapted that attempt. Otherwise it returns the error with which
// the publisher ends.
func (c *committer) handleFailure(ctx context.Context, err error, pending []entry, n int, wait *progressBackoff) error {
	var refused *jetstream.APIError
	if !errors.As(err, &refused) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !conn.IsTransient(err) {
			return err
		}
		// No response. Only the read back shows whether the batch is stored.
		c.uncertain = true
		size := int64(0)
		for _, e := range pending[:n] {
			size += int64(len(e.message.Data))
		}
		// a server without storage for a batch does not respond to it
		if used, limit := c.p.store.AccountStorage(ctx); limit > 0 && limit-used < size {
			return wait.pause(ctx, accountFullReason(c.p.store.Config().Name, used, limit))
		}
		return wait.pause(ctx, "no acknowledgement from the server: "+err.Error())
	}
	err = refusal{refused}
	switch {
	case conn.IsWrongLastSequence(err), refused.ErrorCode == conn.CodeDuplicateInFlight:
		c.uncertain = true
		return wait.pause(ctx, "")
	case errors.Is(conn.AsFull(err), conn.ErrFull):
		if n > 1 {
			c.attemptSize = (n + 1) / 2 // fill the remaining space
			return nil
		}
		return wait.pause(ctx, c.fullReason(ctx, refused))
	}
	switch refused.ErrorCode {
	case conn.CodeBatchDuplicate:
		c.singleLeft = n // some ids are duplicates; for messages sent one by one the server reports which
	case conn.CodeAtomicDisabled:
		c.atomic = false
	case conn.CodeBatchTooLarge:
		c.attemptSize = (n + 1) / 2
	case conn.CodeBatchIncomplete, conn.CodeTooManyInflight:
		if c.incompleteBatches++; c.incompleteBatches >= maxIncompleteBatches {
			c.incompleteBatches, c.singleLeft = 0, n
		}
		c.uncertain = true
		return wait.pause(ctx, "")
	case conn.CodeMessageTooLarge:
		if n > 1 { // for messages sent one by one the server reports which
			c.singleLeft = n
			return nil
		}
		return fmt.Errorf("document %s: %w", pending[0].message.Path, err)
	default:
		if conn.IsTransient(err) {
			c.uncertain = true
			return wait.pause(ctx, "the server answers: "+err.Error())
		}
		return fmt.Errorf("store documents: %w", err)
	}
	return nil
}

// refusal formats a rejection by the server for the operator.
type refusal struct{ *jetstream.APIError }

func (r refusal) Error() string { return fmt.Sprintf("%s (%d)", r.Description, r.ErrorCode) }
func (r refusal) Unwrap() error { return r.APIError }

func (c *committer) fullReason(ctx context.Context, e *jetstream.APIError) string {
	name := c.p.store.Config().Name
	switch {
	case e.ErrorCode == conn.CodeAccountFull:
		used, limit := c.p.store.AccountStorage(ctx)
		return accountFullReason(name, used, limit)
	case e.ErrorCode != conn.CodeStoreFailed:
		return fmt.Sprintf("%v: the NATS server of %s has no storage left (%v); raise max_file_store in its jetstream "+
			"settings, or free space on its disk",
			conn.ErrFull, name, refusal{e})
	}
	info, err := c.p.stream.Info(ctx)
	switch {
	case err == nil && strings.Contains(e.Description, "messages"):
		return fmt.Sprintf("%v: %s holds %d of %d messages; raise its max_msgs to make room", conn.ErrFull, name,
			info.State.Msgs, info.Config.MaxMsgs)
	case err == nil:
		return fmt.Sprintf(
			"%v: %s holds %d documents, %d of %d bytes; raise stream.max_bytes (the daemon's configuration) to make room",
			conn.ErrFull, name, info.State.Msgs, info.State.Bytes, info.Config.MaxBytes)
	}
	return fmt.Sprintf("%v: %s: %s", conn.ErrFull, name, e.Description)
}

// accountFullReason returns why documents wait if the account's streams hold as many bytes as it may store.
func accountFullReason(stream string, used, limit int64) string {
	of := ""
	if limit > 0 {
		of = fmt.Sprintf(": its streams hold %d of %d bytes", used, limit)
	}
	return fmt.Sprintf("%v: the JetStream account of %s has no storage left%s; raise the storage limit of the account, "+
		"or delete streams that are not used",
		conn.ErrFull, stream, of)
}

// recordAck accounts for messages that the server acknowledged.
func (c *committer) recordAck(sent []entry, a messages.Ack) {
	c.uncertain, c.incompleteBatches = false, 0
	c.singleLeft = max(0, c.singleLeft-len(sent))
	c.attemptSize = min(2*c.attemptSize, c.p.options.BatchMessages)
	if a.Duplicate && a.Sequence <= c.last {
		c.countRepeat(a.Sequence)
		return
	}
	var bytes int64
	for _, e := range sent {
		bytes += int64(len(e.message.Data))
		e.reportStored()
	}
	c.last = max(c.last, a.Sequence)
	c.addProgress(len(sent), bytes, 0, a.Sequence)
}

// dropStored removes what the read back found and accounts for it.
func (c *committer) dropStored(pending []entry, found ids, last uint64) []entry {
	if c.known == nil {
		c.known = ids{}
	}
	maps.Copy(c.known, found)
	c.last = max(c.last, last)
	if len(c.known) == 0 {
		return pending
	}
	rest := make([]entry, 0, len(pending))
	for _, e := range pending {
		if c.known.remove(e.message.ID) {
			c.addProgress(1, int64(len(e.message.Data)), 0, last)
			e.reportStored()
		} else {
			rest = append(rest, e)
		}
	}
	return rest
}

// reportStored reports to the tracer that the stream has the document.
func (e entry) reportStored() {
	if e.stored != nil {
		e.stored()
	}
}

// countRepeat counts a document that another publisher has stored at a sequence; 0 for a duplicate within a batch.
func (c *committer) countRepeat(sequence uint64) {
	c.addProgress(0, 0, 1, 0)
	c.p.progressMu.Lock()
	defer c.p.progressMu.Unlock()
	if c.p.committed.Repeated++; c.p.committed.Repeated == 1 {
		c.p.committed.FirstRepeated = sequence
	}
}

func (c *committer) addProgress(documents int, bytes, duplicates int64, last uint64) {
	c.p.progressMu.Lock()
	defer c.p.progressMu.Unlock()
	c.p.committed.Documents += int64(documents)
	c.p.committed.Bytes += bytes
	c.p.committed.Duplicates += duplicates
	c.p.committed.LastSequence = max(c.p.committed.LastSequence, last)
}

// noFence sends without an expected sequence.
const noFence = -1

// send makes one attempt to store messages after sequence fence of their subject, all or none.
func (c *committer) send(ctx context.Context, es []entry, fence int64) (a messages.Ack, err error) {
	batch := make([]*nats.Msg, len(es))
	for i, e := range es {
		batch[i] = e.message.NATS()
	}
	if fence != noFence {
		if batch[0].Header == nil {
			batch[0].Header = nats.Header{}
		}
		batch[0].Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatInt(fence, 10))
	}
	err = c.p.store.Attempt(ctx, c.p.options.Timeout, func(ctx context.Context) (err error) {
		a, err = messages.Commit(ctx, c.p.store.Client, false, batch...)
		return err
	})
	return a, err
}

// progressBackoff is the backoff of one batch, which it reports in the publisher's progress.
type progressBackoff struct {
	p       *Publisher
	backoff *backoff.ExponentialBackOff
}

func (p *Publisher) newProgressBackoff() *progressBackoff {
	return &progressBackoff{p, p.store.Backoff()}
}

// pause waits for the next attempt. An empty reason is not reported.
func (w *progressBackoff) pause(ctx context.Context, reason string) error {
	if reason != "" {
		w.p.setWaiting(reason)
	}
	t := time.NewTimer(w.backoff.NextBackOff())
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resume reports that publishing continues.
func (w *progressBackoff) resume() {
	w.backoff.Reset()
	w.p.setWaiting("")
}

// finish is over, except that after an error publishing does not continue, and OnWait is not called.
func (w *progressBackoff) finish(err error) {
	if err == nil {
		w.resume()
		return
	}
	w.p.noteWaiting("")
}

func (p *Publisher) setWaiting(reason string) {
	if p.noteWaiting(reason) && p.options.OnWait != nil {
		p.options.OnWait(reason)
	}
}

// noteWaiting accounts for the time and reports whether the reason has changed.
func (p *Publisher) noteWaiting(reason string) (changed bool) {
	p.progressMu.Lock()
	defer p.progressMu.Unlock()
	was := p.committed.Waiting
	switch {
	case was == "" && reason != "":
		p.waitingSince = time.Now()
	case was != "" && reason == "":
		p.committed.Waited += time.Since(p.waitingSince)
	}
	p.committed.Waiting = reason
	return was != reason
}
