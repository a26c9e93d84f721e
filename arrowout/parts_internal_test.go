package arrowout

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"loaderd/loader"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// What a part is expected to take is no less than its message, and no less than the ids from which it is made.
func TestMemoryOfAPart(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	mixed := about
	mixed.Config.Sources = map[string]mixture.Source{"web": {}}
	for i := range 300 { // with the longest names that there are
		mixed.Sources = append(mixed.Sources, plan.SourceInfo{SourceBegin: plan.SourceBegin{Name: fmt.Sprintf("%064d", i)}})
	}
	for n := range 500 {
		info := []loader.Info{about, mixed}[n%2]
		bucket, rows := 1+rng.IntN(300), rng.IntN(20)
		s := &plan.Step{Bucket: int32(bucket), Mixed: info.Config.Mixed()}
		for range rows {
			var row []packonline.Piece
			for free := bucket; free > 0 && rng.IntN(8) > 0; free -= int(row[len(row)-1].Length) {
				row = append(row, packonline.Piece{Doc: plan.Ref(rng.IntN(300)*(n%2), 1), Length: int32(1 + rng.IntN(min(free, 9)))})
			}
			s.Rows = append(s.Rows, row)
		}
		var columns []column
		for _, c := range allColumns {
			if rng.IntN(2) == 0 && (c.ask != "sources" || s.Mixed) {
				columns = append(columns, c)
			}
		}
		tokens := make([]int32, rows*bucket)
		b := &loader.Batch{Bucket: bucket, Rows: rows, Content: loader.Content{Tokens: tokens}, Pieces: s.Rows}
		m, _, err := newEncoder(columns, sourcesOf(nil, info)).batch(b, Metadata{Run: info.Run})
		if err != nil {
			t.Fatal(err)
		}
		if want := (part{0, rows}).memory(s, columns); int64(m.size()) > want || want < int64(len(tokens)*bytesOfID) {
			t.Fatalf("%d rows of %d: expected %d bytes for a message of %d and %d ids", rows, bucket, want, m.size(), len(tokens))
		}
	}
}
