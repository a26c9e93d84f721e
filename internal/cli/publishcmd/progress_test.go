package publishcmd

import (
	"testing"
	"time"
)

func TestProgress_LineShowsSizeAndTimeLeft(t *testing.T) {
	for _, c := range []struct {
		read, total int64
		want        string
	}{
		{0, 0, ", 0 B read"},
		{2048, 0, ", 2.0 KiB read"},
		{0, 4096, ", 0 B of 4.0 KiB read"},
		{1024, 4096, ", 1.0 KiB of 4.0 KiB read, about 30s left"},
		{4096, 4096, ", 4.0 KiB of 4.0 KiB read"},
	} {
		if got := readOf(c.read, c.total) + timeLeft(c.read, c.total, 10*time.Second); got != c.want {
			t.Errorf("%d of %d: %q, want %q", c.read, c.total, got, c.want)
		}
	}
}
