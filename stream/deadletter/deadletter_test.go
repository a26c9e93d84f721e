package deadletter_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/deadletter"
)

var broken = &deadletter.Problem{Reason: "INVALID_JSON", Sentence: "it is broken"}

func document(sequence uint64) deadletter.Original {
	return deadletter.Original{Sequence: sequence, Subject: "docs.a", Header: nats.Header{"X-Mine": {"kept"}},
		Data: []byte("{")}
}

// letters returns the letters that the server holds.
func letters(t *testing.T, s *stream.Store) (out []*jetstream.RawStreamMsg) {
	t.Helper()
	st, err := s.EnsureDeadLetters(natstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= st.CachedInfo().State.LastSeq; seq++ {
		m, err := st.GetMsg(natstest.Context(t), seq)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// A document has one letter, however often it is read.
func TestWriter_StoresEachLetterOnce(t *testing.T) {
	s := natstest.Start(t).Store()
	created := time.Now()
	for range 2 {
		w, err := deadletter.Open(natstest.Context(t), s, created, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.Put(natstest.Context(t), document(7), broken)
		w.Put(natstest.Context(t), document(7), broken)
		if c := w.Counts(); c != (deadletter.Counts{Stored: 2}) {
			t.Errorf("counts %+v", c)
		}
	}
	all := letters(t, s)
	if len(all) != 1 || all[0].Subject != "dlq.docs.a.7" || all[0].Header.Get(deadletter.HeaderReason) != "INVALID_JSON" ||
		all[0].Header.Get("Original-X-Mine") != "kept" || string(all[0].Data) != "{" {
		t.Errorf("letters %+v", all)
	}
}

// Letters that cannot be written are queued and later made from the documents. A letter whose document is gone has
// reason and problem only.
func TestWriter_QueuesLettersUntilStored(t *testing.T) {
	srv := natstest.Start(t)
	link := natstest.NewLink(t, srv.Store().ClientURL())
	s := srv.OpenRemoteAt(link.URL())
	fetched := make(chan uint64, 10)
	w, err := deadletter.Open(natstest.Context(t), s, time.Now(),
		func(_ context.Context, sequence uint64) (deadletter.Original, error) {
			fetched <- sequence
			if sequence == 2 {
				return deadletter.Original{}, errors.New("it is gone")
			}
			return document(sequence), nil
		})
	if err != nil {
		t.Fatal(err)
	}
	link.Cut()
	natstest.Eventually(t, "the connection is lost", func() bool { return !s.Status().Connected })
	w.Put(natstest.Context(t), document(1), broken)
	w.Put(natstest.Context(t), document(2), broken)
	if c := w.Counts(); c.Waiting != 2 || c.Failed != 1 || c.Stored != 0 {
		t.Errorf("without a connection: %+v", c)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	link.Restore()
	natstest.Eventually(t, "the letters are stored", func() bool { return w.Counts().Stored == 2 })
	stop()
	<-done
	if c := w.Counts(); c.Waiting != 0 || c.Dropped != 0 || len(fetched) < 2 {
		t.Errorf("at the end: %+v, %d fetched", c, len(fetched))
	}
	have := map[string]*jetstream.RawStreamMsg{}
	for _, m := range letters(t, srv.Store()) {
		have[m.Header.Get(deadletter.HeaderOriginalSequence)] = m
	}
	if len(have) != 2 || string(have["1"].Data) != "{" || have["1"].Subject != "dlq.docs.a.1" {
		t.Errorf("letters %+v", have)
	}
	if len(have) == 2 && (len(have["2"].Data) != 0 || have["2"].Header.Get(deadletter.HeaderTruncated) != "headers" ||
		have["2"].Subject != "dlq.docs.2") {
		t.Errorf("the letter without its document is %+v", have["2"])
	}
}
