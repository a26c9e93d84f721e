package lengthsin_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/internal/lengths/lengthsin"
	"loaderd/loader/document"
	"loaderd/loader/fault"
)

// leaderless is a stream of one document whose servers have no leader until a given time.
type leaderless struct{ until time.Time }

func (s leaderless) State(context.Context) (document.StreamState, error) {
	return document.StreamState{First: 1, Last: 1}, nil
}

func (s leaderless) Read(context.Context, uint64) (document.Source, error) {
	if time.Now().Before(s.until) {
		return nil, &fault.Error{Reason: fault.SourceDown, Message: "no leader"}
	}
	return s, nil
}

func (s leaderless) Chunks() <-chan *document.Chunk {
	ready, queue := make(chan struct{}), make(chan *document.Chunk, 1)
	close(ready)
	d := document.Document{Content: document.Content{Tokens: make([]int32, 3)}, Sequence: 1}
	queue <- &document.Chunk{Ready: ready, Documents: []document.Document{d}}
	return queue
}

func (leaderless) ReleaseChunk()                 {}
func (leaderless) Status() document.SourceStatus { return document.SourceStatus{} }
func (leaderless) Close() error                  { return nil }

// A stream without a leader is read once it has one. If it does not get one, the wait ends with an error.
func TestReadStream_WaitsForLeader(t *testing.T) {
	for _, c := range []struct {
		down time.Duration
		read int
	}{{5 * time.Second, 1}, {time.Hour, 0}} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			lengths, _, err := lengthsin.ReadStream(t.Context(), leaderless{began.Add(c.down)}, "DOCS", 0, func(int, int) {})
			if len(lengths) != c.read || (err == nil) != (c.read > 0) || time.Since(began) > time.Minute {
				t.Errorf("down for %v: %v, %v after %v", c.down, lengths, err, time.Since(began))
			}
			var down *fault.Error
			if err != nil && (!errors.As(err, &down) || down.Reason != fault.SourceDown) {
				t.Errorf("down for %v: %v, want %s", c.down, err, fault.SourceDown)
			}
		})
	}
}
