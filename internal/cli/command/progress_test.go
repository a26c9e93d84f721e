package command

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress_WritesOneLinePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		p := NewProgress(&b, "steps")
		for n := range int64(30) {
			time.Sleep(100 * time.Millisecond)
			p.Report(n+1, 30)
		}
		p.Finish()
		if want := "10 of 30 steps\n20 of 30 steps\n30 of 30 steps\n"; b.String() != want {
			t.Errorf("got %q, want %q", b.String(), want)
		}
	})
}
