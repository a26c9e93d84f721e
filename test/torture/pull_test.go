package torture_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"loaderd/internal/daemontest"
	"loaderd/internal/objecttest"
	"loaderd/internal/testscale"
	"loaderd/loader/backend"
)

// A run that pulls its documents through a small stream gives the bytes of an undisturbed one. Meanwhile the daemon is
// killed and connections to the store are cut. The run ends without a seal when all objects are read.
func TestPull_SurvivesKillsAndCuts(t *testing.T) {
	for _, several := range testscale.Of([]bool{true}, []bool{false, true}) {
		t.Run(fmt.Sprint("several=", several), func(t *testing.T) {
			c, h := daemontest.PullSettings(t, several)
			whole := c
			whole.Stream.MaxBytes, whole.Serve.Retention, whole.Stream.Dir = 1<<30, backend.RetentionKeep, t.TempDir()
			d := daemontest.Start(t, whole)
			want := daemontest.Train(t, d.FlightURI(), func(int) {})
			daemontest.Stop(t, d)
			h.Files.Faults(func(*http.Request) objecttest.Fault {
				return objecttest.Fault{Cut: rand.IntN(2) == 0, After: rand.Int64N(400_000)}
			})
			v := newVictim(t, c)
			v.start()
			kills := testscale.Of(1, 12)
			next := len(want) / (kills + 1)
			got := daemontest.Train(t, v.uri(), func(n int) {
				if n == next {
					next += len(want) / (kills + 1)
					v.kill()
					v.start()
				}
			})
			v.kill()
			if len(got) != len(want) {
				t.Fatalf("%d steps, want %d", len(got), len(want))
			}
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Fatalf("step %d differs", i)
				}
			}
		})
	}
}
