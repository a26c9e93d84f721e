package cluster

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/internal/leader"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
)

// cached is a cache of documents.
type cached map[uint64]document.Content

func (c cached) ViewContent(ref uint64, f func(document.Content)) bool {
	content, ok := c[ref]
	if ok {
		f(content)
	}
	return ok
}

// tokens returns a document of n tokens.
func tokens(n int, id int32) document.Content {
	return document.Content{Tokens: slices.Repeat([]int32{id}, n), Stored: int64(id)}
}

// exchange returns the exchange of a leader of a run with a tokenizer.
func exchange(fingerprint string, c cached) *Documents {
	config := runconfig.Config{Tokenizer: runconfig.Tokenizer{Fingerprint: fingerprint}}
	h := planrecord.Header{ID: "run", Fingerprint: config.Fingerprint(), Config: config}
	v := planview.New(nil, h.Config, backend.Options{})
	v.ApplyOpened(planview.OpenedPlan{Header: h, Tail: 1, Validator: h.Validator()})
	return &Documents{view: v, cache: c, answers: make(chan struct{}, 1),
		leadership: &leadership{leader: &leader.Leader{}, leading: true}}
}

// requested returns the answer of a leader to a request of another daemon.
func (d *Documents) requested(by *Documents, refs ...uint64) []byte {
	return d.answer(context.Background(), documentRequest{by.key(), refs}.encode()[1:])
}

// An answer covers the first requested documents, as many as fit. Documents that are
// not cached, traced or too large are absent.
func TestDocuments_AnswerIsBounded(t *testing.T) {
	c := cached{1: tokens(10, 1), 4: tokens(maxAnswerBytes/3, 4), 5: tokens(30_000, 5), 6: tokens(70_000, 6),
		7: tokens(1, 7)}
	traced := tokens(10, 2)
	traced.Trace = &document.Trace{}
	c[2] = traced
	d := exchange("f", c)
	refs := []uint64{1, 2, 3, 4, 5, 6, 7}
	got := cached{}
	covered, err := decodeDocumentAnswer(d.requested(d, refs...), refs, func(ref uint64, c document.Content) {
		got[ref] = c
	})
	if diff := cmp.Diff(cached{1: c[1], 5: c[5]}, got); diff != "" || covered != 5 || err != nil {
		t.Errorf("%d documents are covered, %v: %s", covered, err, diff)
	}
	if sent := d.Stats().Sent; sent != 2 {
		t.Errorf("%d documents are counted", sent)
	}
}

// A leader does not answer a request of a daemon with another tokenizer or plan, while too many answers are prepared,
// once it no longer leads, and requests that no daemon sends.
func TestDocuments_Refuses(t *testing.T) {
	d := exchange("f", cached{1: tokens(10, 1)})
	if d.requested(d, 1) == nil {
		t.Fatal("no answer")
	}
	if d.requested(exchange("g", nil), 1) != nil {
		t.Error("an answer for another tokenizer")
	}
	whole := documentRequest{d.key(), []uint64{1}}.encode()[1:]
	for name, b := range map[string][]byte{"empty": nil, "cut": whole[:len(whole)-1], "longer": append(whole, 1),
		"many": documentRequest{d.key(), make([]uint64, maxRequestedDocuments+1)}.encode()[1:]} {
		if d.answer(context.Background(), b) != nil {
			t.Errorf("an answer to a request that is %s", name)
		}
	}
	d.answers <- struct{}{}
	if d.requested(d, 1) != nil {
		t.Error("an answer beyond the bound")
	}
	<-d.answers
	d.leadership.leading = false
	d.leadership.setup.Backends.Elector = &noElector{}
	if d.requested(d, 1) != nil {
		t.Error("an answer without leadership")
	}
}

type noElector struct{ backend.Elector }

// A follower whose requests fail sends fewer and fewer, and continues after an answer.
func TestDocuments_PausesAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, requests, fail := exchange("f", cached{1: tokens(10, 1)}), 0, true
		follower := &Documents{view: d.view, leadership: &leadership{setup: leader.Setup{
			Backends: backend.Backends{Elector: &noElector{}}}}, remote: newRemoteLeader(d.view)}
		follower.request = func(ctx context.Context, b []byte) ([]byte, error) {
			if requests++; fail {
				return nil, nil
			}
			return d.answer(ctx, b[1:]), nil
		}
		fetch := func() (found bool) {
			follower.remote.hasReport, follower.remote.received = true, time.Now()
			follower.Fetch(t.Context(), []uint64{1}, func(uint64, document.Content) { found = true })
			return found
		}
		for range 60 {
			if fetch() {
				t.Fatal("a document without an answer")
			}
			time.Sleep(time.Second)
		}
		if requests < 5 || requests > 7 {
			t.Errorf("%d requests within a minute", requests)
		}
		fail = false
		time.Sleep(documentPause << maxDoublings)
		for range 3 {
			if !fetch() {
				t.Error("no document")
			}
		}
		fail = true
		fetch()
		time.Sleep(documentPause)
		if before := requests; fetch() || requests != before+1 {
			t.Error("no request after a single failure")
		}
	})
}

// Any bytes behind the header are either refused or documents that were requested.
func FuzzDocumentAnswer(f *testing.F) {
	d := exchange("f", cached{1: tokens(3, 1), 3: tokens(4, 70_000)})
	refs := []uint64{1, 2, 3}
	f.Add(d.requested(d, refs...)[answerHeader:])
	f.Add([]byte{0xff}) // an incomplete length
	f.Fuzz(func(t *testing.T, body []byte) {
		// without the header's checksum no other code is reached
		b := (&documentAnswer{message: append([]byte{documentMessage, 0, 0, 0, 0}, body...)}).encode()
		covered, err := decodeDocumentAnswer(b, refs, func(ref uint64, _ document.Content) {
			if !slices.Contains(refs, ref) {
				t.Errorf("document %d", ref)
			}
		})
		if covered > len(refs) || err == nil && covered == 0 {
			t.Errorf("%d documents are covered, %v", covered, err)
		}
	})
}

// A decoded request is encoded as it was.
func FuzzDocumentRequest(f *testing.F) {
	f.Add(documentRequest{"run f", []uint64{1, 2, 500}}.encode()[1:])
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := decodeDocumentRequest(b)
		if err != nil {
			return
		}
		again, err := decodeDocumentRequest(q.encode()[1:])
		if err != nil || !cmp.Equal(q, again, cmp.AllowUnexported(documentRequest{})) {
			t.Errorf("%v: %v, %v", err, q, again)
		}
	})
}
