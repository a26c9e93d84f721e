package plan_test

import (
	"testing"

	"pgregory.net/rapid"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/plan"
)

// The rows that a step is said to lack are those that come before it: exactly with one bucket, at least with several. Nothing else sends a
// step on: no bound on waits, no atoms of other sizes.
func TestShortageIsWhatComes(t *testing.T) {
	for _, method := range []string{"bucket", "bfd", "concat", "bucketllm", "seamless"} {
		t.Run(method, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := plantest.Configs(method).Filter(func(c plan.Config) bool { return c.Packing.Atom == 1 }).Draw(t, "configuration")
				c.Steps.MaxWait = 0
				p := newPlanner(t, c)
				for _, a := range drawArrivals(t, c.Documents.Several()) {
					s := p.Shortage()
					_, before := p.Counts()
					steps, err := p.Add(a)
					if err != nil {
						t.Fatal(err)
					}
					_, after := p.Counts()
					rows := int(after.Rows - before.Rows)
					switch lacks := s.Needed - s.There; {
					case lacks < 1:
						t.Fatalf("before document %d: %d rows needed, %d there", a.Sequence, s.Needed, s.There)
					case len(steps) > 0 && rows < lacks:
						t.Fatalf("document %d: a step came with %d rows, %d were said to lack", a.Sequence, rows, lacks)
					case len(steps) == 0 && rows >= lacks && len(c.Packing.Buckets) == 1:
						t.Fatalf("document %d: no step came with %d rows, %d were said to lack", a.Sequence, rows, lacks)
					}
				}
			})
		})
	}
}
