package daemon

import (
	"log/slog"
	"testing"
)

func TestDescriptors_LowerConnectionLimits(t *testing.T) {
	for n, want := range map[int][2]int{1500: {750, 187}, 1 << 20: {4096, 1024}, 4: {2, 1}} {
		c := settings(t)
		limitConnections(&c, n, slog.New(slog.DiscardHandler))
		if got := [2]int{c.Flight.MaxConnections, c.HTTP.MaxConnections}; got != want {
			t.Errorf("%d descriptors: got %v, want %v", n, got, want)
		}
	}
}
