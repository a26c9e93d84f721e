package arrowout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/array"

	"loaderd/arrowout"
	"loaderd/internal/testscale"
)

// Every batch has its own values while other readers read, end or cancel, even if memory is overwritten as soon as it
// is returned. So no memory is given to another batch before it is sent.
func TestBufferReuse_OnlyAfterMessageIsSent(t *testing.T) {
	const rows, bucket, steps = 4, 16 << 10, 12 // several windows per stream
	f := newFake(steps, rows, bucket)
	s, plain := serve(t, f), serve(t, f)
	var returned atomic.Int64
	s.OnBufferReturn(func(memory []byte) {
		returned.Add(1)
		for i := range memory {
			memory[i] = 0xa5
		}
	})
	ids := []string{"input_ids", "input_ids:uint16"}
	var want [2][steps][][]byte // by ids
	read := func(s *arrowout.Server, narrow int, step uint64, most int, look func(i int, values [][]byte)) {
		c := dial(t, s)
		r, cancel, err := get(t, c, fmt.Sprintf(`{"step":%d,"columns":["%s","segment_ids","position_ids","labels"]}`, step,
			ids[narrow]))
		if err != nil {
			t.Error(err)
			return
		}
		defer cancel()
		for i := 0; i < most && r.Next(); i++ {
			var values [][]byte
			for _, column := range r.Record().Columns() {
				values = append(values, column.(*array.List).ListValues().Data().Buffers()[1].Bytes())
			}
			look(i, values)
		}
	}
	for narrow := range want {
		for step := range want[narrow] {
			read(plain, narrow, uint64(step), 1, func(_ int, values [][]byte) {
				for _, v := range values {
					want[narrow][step] = append(want[narrow][step], slices.Clone(v))
				}
			})
		}
	}
	var wg sync.WaitGroup
	for reader := range testscale.Of(8, 16) {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(23, uint64(reader)))
			for range testscale.Of(4, 8) {
				step, narrow := random.IntN(steps), random.IntN(len(ids))
				read(s, narrow, uint64(step), 1+random.IntN(steps), func(i int, values [][]byte) {
					for c := range values {
						if !slices.Equal(values[c], want[narrow][step+i][c]) {
							t.Errorf("column %d of step %d has values of another batch", c, step+i)
						}
					}
				})
			}
		})
	}
	wg.Wait()
	if returned.Load() == 0 {
		t.Error("no memory was returned")
	}
}
