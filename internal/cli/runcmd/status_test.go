package runcmd

import (
	"strings"
	"testing"

	"loaderd/internal/api"
	"loaderd/loader/state"
)

// status shows the stream that is closest to its limit, and the estimated time until it is full.
func TestStatus_ShowsFullestStream(t *testing.T) {
	soon := 2400.
	for _, tc := range []struct {
		name    string
		streams []state.StreamFill
		want    string // a part of the line; empty for no line
	}{
		{"none", nil, ""},
		{"unlimited", []state.StreamFill{{Name: "DOCS", Bytes: 9}}, ""},
		{"room", []state.StreamFill{{Name: "DOCS", Bytes: 1 << 20, MaxBytes: 1 << 30}},
			"1.0 MiB of 1.0 GiB in stream DOCS\n"},
		{"fullest", []state.StreamFill{{Name: "DOCS_a", Bytes: 5, MaxBytes: 10},
			{Name: "DOCS_b", Bytes: 9, MaxBytes: 10, FullInSeconds: &soon},
			{Name: "DOCS_c", Bytes: 100}}, "9 B of 10 B in stream DOCS_b, full in about 40 min\n"},
		{"full", []state.StreamFill{{Name: "DOCS", Bytes: 10, MaxBytes: 10, Full: true}},
			"10 B of 10 B in stream DOCS, full\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			if err := writeStatus(&out, api.Status{Streams: tc.streams}); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); strings.Contains(got, "stored") != (tc.want != "") || !strings.Contains(got, tc.want) {
				t.Errorf("output of status: %q, want %q", got, tc.want)
			}
		})
	}
}
