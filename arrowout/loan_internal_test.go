package arrowout

import (
	"log/slog"
	"testing"

	"loaderd/arrowout/internal/session"

	"google.golang.org/grpc/mem"
)

// Memory of a message comes back when gRPC has let go of all of its buffers, and of every reference to them; not before.
func TestLoan_EndsWithTheLastReference(t *testing.T) {
	returned := 0
	from := newBuffers()
	from.returned = func([]byte) { returned++ }
	sessions := session.New(sessionLimits(Default()), repeats, slog.New(slog.DiscardHandler))
	s, err := sessions.Open(t.Context(), session.Reader{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Take(t.Context(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	l := &loan{from: from}
	m := &message{header: []byte("header"), charge: c, loan: l}
	for range 2 {
		if _, err := m.Write(l.bytes(8 << 10)); err != nil {
			t.Fatal(err)
		}
	}
	var held []mem.Buffer
	for _, buffer := range m.marshal() {
		buffer.Ref() // as the transport does until it has written it
		held = append(held, buffer)
		buffer.Free()
	}
	for i, buffer := range held {
		if returned != 0 {
			t.Fatalf("memory came back while gRPC had %d of %d buffers", len(held)-i, len(held))
		}
		buffer.Free()
	}
	if returned != 2 || sessions.Held() != 0 {
		t.Errorf("%d of 2 pieces of memory came back, the budget has %d bytes out", returned, sessions.Held())
	}
}
