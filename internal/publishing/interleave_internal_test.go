package publishing

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Every input is in one lane, the spans of a lane are consecutive and cover the stream, and the lanes are of about the
// same size.
func TestInterleave_LanesCoverStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 0, 100).Draw(t, "sizes")
		n := rapid.IntRange(1, 40).Draw(t, "lanes")
		plan := planLanes(sizes, n)
		var seen []int
		var loads []int64
		largest := int64(0)
		for _, spans := range plan {
			end, load := 0.0, int64(0)
			for _, s := range spans {
				seen = append(seen, s.input)
				load, largest = load+sizes[s.input], max(largest, sizes[s.input])
				if s.start != end && sizes[s.input] > 0 {
					t.Fatalf("input %d starts at %v, want %v", s.input, s.start, end)
				}
				end = s.at(1)
			}
			if math.Abs(end-1) > 1e-9 {
				t.Fatalf("a lane ends at %v", end)
			}
			if load > 0 {
				loads = append(loads, load)
			}
		}
		if slices.Sort(seen); len(seen) != len(sizes) || len(slices.Compact(seen)) != len(sizes) {
			t.Fatalf("inputs %v of %d", seen, len(sizes))
		}
		if len(loads) > n || len(loads) > 0 && slices.Max(loads)-slices.Min(loads) > largest {
			t.Fatalf("%d lanes of sizes %v", len(loads), loads)
		}
	})
}
