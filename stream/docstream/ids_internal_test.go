package docstream

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// For any number of ids, all are copied, and the largest is found at any position.
func TestCopyIDs_CopiesAllAndFindsLargest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for n := range 23 {
		want := make([]int32, n)
		for i := range want {
			want[i] = r.Int32N(50_000)
		}
		for at := range max(n, 1) {
			for _, most := range []int32{50_001, 1<<31 - 1, -1} {
				ids, data := slices.Clone(want), []byte(nil)
				if n > 0 {
					ids[at] = most
				}
				for _, id := range ids {
					data = binary.LittleEndian.AppendUint32(data, uint32(id))
				}
				got := make([]int32, n, n+1)
				largest := copyIDs(got, data)
				if !slices.Equal(got, ids) || n > 0 && largest != uint32(most) || n == 0 && largest != 0 {
					t.Fatalf("of %v the largest is %d, and the copy %v", ids, largest, got)
				}
			}
		}
	}
}
