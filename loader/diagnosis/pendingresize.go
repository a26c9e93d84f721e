package diagnosis

import (
	"fmt"
	"strings"
	"time"

	"loaderd/internal/humanize"
	"loaderd/loader/state"
)

// DescribeResize describes a change of a world size that waits for ranks.
func DescribeResize(p state.PendingResize, now time.Time) string {
	missing := NameRanks(p.Missing, p.MissingCount)
	verb := "has"
	if p.MissingCount > 1 {
		verb = "have"
	}
	return fmt.Sprintf("%s of %d of job %q %s not called resize at step %d for %s; joined: %s",
		strings.ToUpper(missing[:1])+missing[1:], p.World, p.Job, verb, p.Step, humanize.Time(max(0, now.Sub(p.Since))),
		NameRanks(p.Joined, p.JoinedCount))
}
