package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"loaderd/loader/document"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

const (
	// documentTimeout is how long a follower waits for an answer with documents.
	documentTimeout = 250 * time.Millisecond
	// documentPause is how long a follower requests no documents after a request has failed. It doubles with each further
	// failure, maxDoublings times.
	documentPause = time.Second
	maxDoublings  = 6
	// absentDocuments is the number of consecutive documents that the leader does not have, after which a follower
	// requests none for absentPause.
	absentDocuments = 64
	absentPause     = time.Second
	// maxDocumentAnswers bounds the answers that a leader prepares at a time. Further requests are not answered.
	maxDocumentAnswers = 32
)

// ContentCache is a cache of documents.
type ContentCache interface {
	// ViewContent calls f with the content of a document, which stays unchanged until f returns. It returns false if the
	// document is not cached.
	ViewContent(ref uint64, f func(document.Content)) bool
}

// Documents exchanges tokenized documents between the daemons of a run: a follower requests them from the cache of the
// leader instead of reading and tokenizing them. Batches do not depend on it: a document that the leader does not send
// in time is read from its stream.
type Documents struct {
	view       *planview.View
	leadership *leadership
	remote     *remoteLeader
	request    func(ctx context.Context, request []byte) ([]byte, error)
	cache      ContentCache
	answers    chan struct{} // bounds the answers being prepared
	sent       atomic.Int64
	received   atomic.Int64
	failed     atomic.Int64

	mu       sync.Mutex
	paused   time.Time // no requests until then
	failures int       // consecutive failed requests
	absent   int       // consecutive documents that the leader did not have
}

// Stats returns how many documents this daemon has sent and received, and how many of its requests have failed.
func (d *Documents) Stats() state.DocumentExchange {
	return state.DocumentExchange{Sent: d.sent.Load(), Received: d.received.Load(), Failed: d.failed.Load()}
}

// key identifies the documents of the plan. It covers the tokenizer and all settings that determine tokens.
func (d *Documents) key() string {
	h, _ := d.view.Header()
	return h.ID + " " + h.Fingerprint
}

// Ready reports whether the leader is in another process and may be asked for documents.
func (d *Documents) Ready() bool {
	if d.request == nil || d.leadership.current() != nil || !d.remote.isPresent() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return !time.Now().Before(d.paused)
}

// Fetch calls f with each of the documents that the leader has cached. The references must ascend. It waits for an
// answer for at most documentTimeout, and stops at the first failure.
func (d *Documents) Fetch(ctx context.Context, refs []uint64, f func(ref uint64, c document.Content)) {
	for len(refs) > 0 && ctx.Err() == nil && d.Ready() {
		n := d.fetch(ctx, refs[:min(len(refs), maxRequestedDocuments)], f)
		if n == 0 {
			return
		}
		refs = refs[n:]
	}
}

// fetch sends one request. It returns the number of references that the answer covers.
func (d *Documents) fetch(ctx context.Context, refs []uint64, f func(ref uint64, c document.Content)) int {
	limit, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	answer, err := d.request(limit, documentRequest{d.key(), refs}.encode())
	covered, found := 0, 0
	if err == nil {
		covered, err = decodeDocumentAnswer(answer, refs, func(ref uint64, c document.Content) {
			found++
			f(ref, c)
		})
	}
	d.received.Add(int64(found))
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.failures = 0
	} else if ctx.Err() == nil {
		d.failed.Add(1)
		d.paused = time.Now().Add(documentPause << min(d.failures, maxDoublings))
		d.failures++
	}
	if d.absent += covered; found > 0 {
		d.absent = 0
	}
	if d.absent >= absentDocuments {
		d.absent, d.paused = 0, time.Now().Add(absentPause)
	}
	return covered
}

// answer answers a request without its first byte. It returns nil if it cannot answer now, or has another plan.
func (d *Documents) answer(ctx context.Context, request []byte) []byte {
	select {
	case d.answers <- struct{}{}:
		defer func() { <-d.answers }()
	default:
		return nil
	}
	q, err := decodeDocumentRequest(request)
	if err != nil || q.key != d.key() || d.leadership.current() == nil {
		return nil
	}
	a := newDocumentAnswer()
	for more, i := true, 0; more && i < len(q.refs) && ctx.Err() == nil; i++ {
		if !d.cache.ViewContent(q.refs[i], func(c document.Content) { more = a.add(c) }) {
			more = a.addAbsent()
		}
	}
	d.sent.Add(a.documents)
	return a.encode()
}
