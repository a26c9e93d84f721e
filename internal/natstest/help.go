package natstest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
)

// TimeoutContext returns a context that ends after d, or with the test.
func TimeoutContext(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Context returns a context that ends well before the test binary's own limit.
func Context(t testing.TB) context.Context {
	t.Helper()
	return TimeoutContext(t, 2*time.Minute)
}

// Eventually waits for a condition that another goroutine or a server brings about.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx := Context(t)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("did not happen in time: %s", what)
		}
	}
}

// Documents returns n documents whose text contains their number, starting with first.
func Documents(first, n int) []stream.Message {
	out := make([]stream.Message, n)
	for i := range out {
		out[i].Data = []byte("document " + strconv.Itoa(first+i))
	}
	return out
}

// publishOnce publishes a message to a cluster, until ctx ends. The members of a cluster receive a new stream one after
// the other, and a stream whose leader was cut off elects another one. A message that the former leader has received is
// lost without a response. It is therefore published again with the same expected last sequence, and so stored once.
func publishOnce(ctx context.Context, s *stream.Store, m *nats.Msg) error {
	var st jetstream.Stream
	for {
		ask, cancel := context.WithTimeout(ctx, 3*time.Second)
		err := error(nil)
		if st == nil {
			st, err = s.JetStream().Stream(ask, s.Config().Name)
		}
		if err == nil {
			last := st.CachedInfo().State.LastSeq
			_, err = s.JetStream().PublishMsg(ask, m, jetstream.WithExpectLastSequence(last))
			var refused *jetstream.APIError
			if errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
				var stored []byte
				stored, err = readMessage(ctx, st, last+1)
				switch {
				case err != nil: // the message of an attempt without a response may not be readable yet
				case bytes.Equal(stored, m.Data):
					cancel()
					return nil
				default:
					st = nil // its state was not current
				}
			}
		}
		cancel()
		if err == nil && st != nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// readMessage returns the data of a message. It gives a large message more time than its publication.
func readMessage(ctx context.Context, st jetstream.Stream, sequence uint64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	m, err := st.GetMsg(ctx, sequence)
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

// Publish adds messages to the document stream, on docs.test if they have no subject, and waits until all are stored.
func Publish(t testing.TB, s *stream.Store, messages ...stream.Message) {
	t.Helper()
	ctx := Context(t)
	if s.Clustered() && len(messages) > 0 {
		if err := publishOnce(ctx, s, natsMessage(messages[0])); err != nil {
			t.Fatal(err)
		}
		messages = messages[1:]
	}
	for part := range slices.Chunk(messages, 1000) {
		acks := make([]jetstream.PubAckFuture, len(part))
		for i, m := range part {
			var err error
			if acks[i], err = s.JetStream().PublishMsgAsync(natsMessage(m)); err != nil {
				t.Fatal(err)
			}
		}
		for _, ack := range acks {
			select {
			case <-ack.Ok():
			case err := <-ack.Err():
				t.Fatal(err)
			case <-ctx.Done():
				t.Fatal("messages were not stored in time")
			}
		}
	}
}

// Stored returns all messages of the document stream, in order.
func Stored(t testing.TB, s *stream.Store) (all []jetstream.Msg) {
	t.Helper()
	st, err := s.EnsureDocuments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	info, err := st.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := st.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := c.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	for range info.State.Msgs {
		// Longer than the library takes to detect a lost request and recreate the consumer: two heartbeats of 15 seconds.
		m, err := messages.Next(jetstream.NextMaxWait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func natsMessage(m stream.Message) *nats.Msg {
	if m.Subject == "" {
		m.Subject = "docs.test"
	}
	return m.NATS()
}

// LogBuffer collects text that many goroutines write, such as a log's.
type LogBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *LogBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns the text written so far.
func (b *LogBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
