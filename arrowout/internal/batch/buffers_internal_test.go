package batch

import (
	"log/slog"
	"testing"

	"google.golang.org/grpc/mem"

	"loaderd/arrowout/internal/session"
)

// A message's memory returns to the pool when gRPC has released all references to all of its buffers, and not before.
func TestBufferPool_MemoryReturnsWithLastReference(t *testing.T) {
	returned := 0
	from := NewBufferPool()
	from.OnReturn = func([]byte) { returned++ }
	sessions := session.New(session.Limits{Streams: 1, StreamsPerIdentity: 1, Bytes: 1 << 30}, nil,
		slog.New(slog.DiscardHandler))
	s, err := sessions.Open(t.Context(), session.ReaderInfo{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Acquire(t.Context(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	l := &messageBuffers{pool: from}
	m := &Message{header: []byte("header"), Charge: c, buffers: l}
	for range 2 {
		if _, err := m.Write(l.bytes(8 << 10)); err != nil {
			t.Fatal(err)
		}
	}
	var held []mem.Buffer
	for _, buffer := range m.marshal() {
		buffer.Ref() // as the transport does until it has written the buffer
		held = append(held, buffer)
		buffer.Free()
	}
	for i, buffer := range held {
		if returned != 0 {
			t.Fatalf("memory was returned while gRPC had %d of %d buffers", len(held)-i, len(held))
		}
		buffer.Free()
	}
	if returned != 2 || sessions.HeldBytes() != 0 {
		t.Errorf("%d of 2 pieces of memory were returned, the budget has %d bytes out", returned, sessions.HeldBytes())
	}
}
