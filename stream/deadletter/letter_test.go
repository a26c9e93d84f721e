package deadletter

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"loaderd/stream"
)

// A letter is larger than its message, which may be as large as the server accepts.
func TestLetter_TruncatedToServerLimit(t *testing.T) {
	const limit = 1 << 20
	for _, tt := range []struct {
		name            string
		header, payload int
		truncated       []string
		kept            int // bytes of payload at least
	}{
		{name: "small", header: 10, payload: 10, kept: 10},
		{name: "long headers", header: 60 << 10, payload: 10, truncated: []string{"headers"}, kept: 10},
		{name: "large payload", header: 10, payload: limit - 200, truncated: []string{"payload of 1048376 bytes"},
			kept: limit - 2048},
		{name: "both", header: 60 << 10, payload: limit - 100, truncated: []string{"headers", "payload of 1048476 bytes"},
			kept: limit - 2048},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := Original{Sequence: 7, Subject: "docs.a", Header: nats.Header{"X-Long": {strings.Repeat("h", tt.header)}},
				Data: bytes.Repeat([]byte("d"), tt.payload)}
			got := newLetter(stream.Default(), m, &Problem{"INVALID_JSON", "it is broken"}, limit)
			if n := got.Size(); n+256 > limit {
				t.Errorf("%d bytes leave no room for what the client adds, the server takes %d", n, limit)
			}
			if kept := got.Header["Original-X-Long"] != nil; kept == (tt.header > maxOriginalHeaders) {
				t.Errorf("original headers of %d bytes kept: %v", tt.header, kept)
			}
			if strings.Join(got.Header[HeaderTruncated], ";") != strings.Join(tt.truncated, ";") {
				t.Errorf("%s is %q, want %q", HeaderTruncated, got.Header[HeaderTruncated], tt.truncated)
			}
			if len(got.Data) < tt.kept || !bytes.HasPrefix(m.Data, got.Data) {
				t.Errorf("%d bytes of payload are kept, want %d", len(got.Data), tt.kept)
			}
		})
	}
}
