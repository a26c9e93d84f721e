package docstream

import (
	"testing"
	"testing/synctest"
	"time"
)

// Doubts hold after several responses over some time, with no contrary response and no long gap between them.
func TestIdentityCheck_NeedsRepeatedResponses(t *testing.T) {
	tests := []struct {
		name  string
		waits []time.Duration // before each answer
		clear int             // before which response a contrary one arrives; 0 for none
		want  bool
	}{
		{"one", []time.Duration{0}, 0, false},
		{"many at once", []time.Duration{0, 0, 0, 0, 0}, 0, false},
		{"few over a long time", []time.Duration{0, mismatchTime / 2, mismatchTime / 2}, 0, false},
		{"many over a long time", []time.Duration{0, time.Second, time.Second, time.Second, 2 * time.Second}, 0, true},
		{"one to the contrary between them", []time.Duration{0, time.Second, time.Second, time.Second, 2 * time.Second}, 2,
			false},
		{"far apart", []time.Duration{0, 0, 0, 0, 2 * mismatchTime}, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d identityCheck
				got := false
				for i, wait := range tt.waits {
					time.Sleep(wait)
					if i > 0 && i == tt.clear {
						d.reset()
					}
					got = d.addMismatch()
				}
				if got != tt.want {
					t.Errorf("they stand: %v, want %v", got, tt.want)
				}
			})
		})
	}
}
