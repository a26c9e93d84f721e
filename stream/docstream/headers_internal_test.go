package docstream

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// In any sequence of messages, the headers of each are what the library parses.
func TestHeaderParser_MatchesLibrary(t *testing.T) {
	begins := []string{"NATS/1.0\r\n", "NATS/1.0\n", "NATS/1.0 503\r\n", "NATS/1.0 100 Idle\r\n", "HTTP\r\n", ""}
	names := []string{"Nats-Msg-Id", "Nats-Msg-Id", "Content-Type", "content-type", "A", "A B", "", " A", "A "}
	values := []string{"1", "2", "22", "text/plain", "", " ", "a:b", "\t x ", "\rx", "x\r"}
	ends := []string{"\r\n", "\n", "\r\r\n", ""}
	const seeds, messages = 200, 200
	again := 0
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 1))
		pick := func(of []string) string { return of[r.IntN(len(of))] }
		mostly := func(of []string) string { return of[max(r.IntN(len(of)*8)-len(of)*7, 0)] } // mostly the first
		var shape []string                                                                    // of consecutive messages
		var h headerParser
		for range messages {
			if shape == nil || r.IntN(10) == 0 {
				shape = nil
				for range r.IntN(4) {
					shape = append(shape, pick(names))
				}
			}
			r.Shuffle(len(shape), func(i, k int) { shape[i], shape[k] = shape[k], shape[i] })
			raw := mostly(begins)
			for _, name := range shape {
				raw += name + strings.Repeat(":", min(r.IntN(30), 1)) + strings.Repeat(" ", r.IntN(2)) + pick(values) + mostly(ends)
			}
			raw += mostly(ends) + strings.Repeat("more:\r\n", r.IntN(2))
			want, wantErr := nats.DecodeHeadersMsg([]byte(raw))
			before := fmt.Sprintf("%p", h.last)
			got, err := h.parse([]byte(raw))
			if (err == nil) != (wantErr == nil) || !maps.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("%q is read as %q, %v: want %q, %v", raw, got, err, want, wantErr)
			}
			if len(got) > 0 && fmt.Sprintf("%p", got) == before {
				again++
			}
		}
	}
	if again < seeds*messages/20 {
		t.Errorf("of %d messages %d were served by the last headers", seeds*messages, again)
	}
}

// Headers that differ from the previous ones only in the id reuse them.
func TestHeaderParser_ReusesEqualHeaders(t *testing.T) {
	var h headerParser
	raw := []byte("NATS/1.0\r\nContent-Type: application/x\r\nLoaderd-Tokenizer: sha256:1\r\nNats-Msg-Id: 10\r\n\r\n")
	if n := testing.AllocsPerRun(100, func() {
		raw[len(raw)-5] ^= 1
		if header, err := h.parse(raw); err != nil || len(header) != 3 ||
			header.Get(nats.MsgIdHdr) != string(raw[len(raw)-6:len(raw)-4]) {
			t.Errorf("headers %q, %v", header, err)
		}
	}); n > 2 {
		t.Errorf("%v allocations", n)
	}
}
