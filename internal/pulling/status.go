package pulling

import (
	"fmt"
	"strings"

	"loaderd/internal/humanize"
)

// Sentence returns the progress of the source, or why no documents are stored, and the action to take; "" if none is
// needed.
func (s Status) Sentence() (what, do string) {
	from := strings.Join(s.From, ", ")
	far := fmt.Sprintf("%s of %s objects of %s are read", humanize.Count(int64(s.Read)), humanize.Count(int64(s.Objects)),
		from)
	switch {
	case s.Trouble != "":
		return "documents of " + from + " do not arrive: " + s.Trouble, "fix the cause: loaderd retries automatically"
	case s.Complete:
		return "all " + humanize.Count(int64(s.Objects)) + " objects of " + from + " are read, and the source is sealed", ""
	case s.Waits != "":
		return far + "; " + s.Waits, ""
	case s.Objects == 0:
		return "the objects of " + from + " are being listed", ""
	case s.Rate > 0:
		return far + ", " + humanize.Bytes(int64(s.Rate)) + "/s", ""
	}
	return far, ""
}
