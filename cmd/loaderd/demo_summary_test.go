package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"loaderd/internal/config"
	"loaderd/packonline"
)

// Where the demo says that no document is split that fits into a row, it is so.
func TestDemoSaysWhatIsSplit(t *testing.T) {
	for _, method := range packonline.Methods() {
		t.Run(method, func(t *testing.T) {
			c := config.Default().Plan.Packing
			c.Method, c.Buckets, c.Pool, c.MaxAge = method, []int{64}, 32, 100
			if packonline.Buckets(method) {
				c.Buckets = []int{16, 32, 64}
			}
			p, err := packonline.New(c)
			if err != nil {
				t.Fatal(err)
			}
			var rows packonline.Rows
			draw, long := rand.New(rand.NewPCG(1, 2)), int64(0)
			for i := range 2000 {
				n := 1 + draw.Int32N(90)
				if n > 64 {
					long++
				}
				rows.Reset()
				p.Add(packonline.Doc{Seq: uint64(i + 1), Length: n}, &rows)
			}
			p.Flush(&rows)
			truncated := p.Counts().Truncated
			if keepsWhole(c) && truncated != long {
				t.Errorf("%d documents are split, %d are longer than a row, which the demo denies", truncated, long)
			}
			var text strings.Builder
			if err := (demoSummary{TruncationRatio: float64(truncated) / 2000, whole: keepsWhole(c)}).writeText(&text, false); err != nil {
				t.Fatal(err)
			}
			said := strings.Contains(text.String(), "none that fits into one is") &&
				strings.Contains(text.String(), fmt.Sprintf("%.1f %%       of the documents are split over rows: those longer than a row;", float64(truncated)/20))
			if said != keepsWhole(c) {
				t.Errorf("the demo says\n%s", text.String())
			}
		})
	}
}
