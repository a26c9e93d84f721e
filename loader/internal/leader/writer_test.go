package leader

import (
	"context"
	"slices"
	"testing"

	"loaderd/loader/backend"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
)

// sizesLog records the number of records per append.
type sizesLog struct {
	backend.PlanLog
	sizes []int
}

func (l *sizesLog) Append(_ context.Context, _ uint64, records ...[]byte) error {
	l.sizes = append(l.sizes, len(records))
	return nil
}

// An append is bounded, and never ends within a step.
func TestWriter_AppendsWholeSteps(t *testing.T) {
	records := func(n, bytes int) [][]byte { return slices.Repeat([][]byte{make([]byte, bytes)}, n) }
	for _, c := range []struct {
		name   string
		writes [][][]byte
		want   []int
	}{
		{"a few: each alone", [][][]byte{records(1, 10), records(3, 10), records(1, 10)}, []int{1, 3, 1}},
		{"many: together", slices.Repeat([][][]byte{records(2, 10)}, 20), []int{40}},
		{"too many records", [][][]byte{records(100, 10), records(200, 10), records(300, 10), records(30, 10)},
			[]int{100, 200, 300, 30}},
		{"too many bytes", slices.Repeat([][][]byte{records(10, 1<<19)}, 3), []int{10, 10, 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log sizesLog
			view := planview.New(nil, runconfig.Config{}, backend.Options{})
			w := &planWriter{plan: &log, view: view, term: &term{}, status: newStatus(view, nil)}
			in := make(chan planWrite, len(c.writes))
			for _, w := range c.writes {
				in <- planWrite{afterPosition: 7, records: w} // after records that the view has not processed
			}
			close(in)
			if err := w.writeAll(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(log.sizes, c.want) {
				t.Fatalf("appends of %v records, want %v", log.sizes, c.want)
			}
		})
	}
}
