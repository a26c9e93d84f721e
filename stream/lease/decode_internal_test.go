package lease

import (
	"encoding/json"
	"testing"

	"loaderd/internal/fuzztest"
)

func FuzzDecodeLeaderInfo(f *testing.F) {
	h, _ := json.Marshal(NewLeaderInfo("host", 7))
	for _, s := range []string{string(h), `{"id":"x","host":"a\u001b[2Jb"}`, `{"id":"a.>"}`, `{"id":""}`, `7`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeLeaderInfo(b)
		if err != nil {
			return
		}
		for _, r := range h.ID + h.Host + h.Flight {
			if r <= ' ' || r > '~' {
				t.Fatalf("accepted: %+q", h.String())
			}
		}
		if h.ID == "" {
			t.Fatalf("accepted: %+v", h)
		}
		fuzztest.RoundTrip(t, h, decodeLeaderInfo)
	})
}
