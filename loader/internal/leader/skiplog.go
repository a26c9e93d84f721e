package leader

import (
	"context"
	"log/slog"
	"time"

	"loaderd/internal/event"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// The log reports skipped documents skipLogFirst after the first, when there may be thousands, and then less and less
// often.
const (
	skipLogFirst = time.Second
	skipLogPause = 10 * time.Second
	skipLogMost  = time.Hour
)

// skipLog reports documents that are not used in the log, a line per reason.
type skipLog struct {
	count  plan.Skips
	logged plan.Skips // when the log was last written
	last   map[plan.Skip]skippedDocument
	next   time.Time // when it may be written again
	pause  time.Duration
}

// skippedDocument names a document.
type skippedDocument struct {
	source   int
	sequence uint64
}

func newSkipLog(count plan.Skips) skipLog {
	return skipLog{count: count, logged: count, last: map[plan.Skip]skippedDocument{}}
}

// observe notes how many documents have been skipped up to one.
func (s *skipLog) observe(source int, sequence uint64, count plan.Skips) {
	if count == s.count {
		return
	}
	for why, n := range count.All() {
		if n != s.count.Of(why) {
			s.last[why] = skippedDocument{source, sequence}
		}
	}
	s.count = count
}

// replayed notes that the present documents were logged before a restart.
func (s *skipLog) replayed() { s.logged = s.count }

// write logs the reasons whose counts have grown, when it is time to.
func (s *skipLog) write(now time.Time, sources []state.SourceStats, log *slog.Logger) {
	switch {
	case s.count == s.logged:
		return
	case s.next.IsZero():
		s.next = now.Add(skipLogFirst)
	}
	if now.Before(s.next) {
		return
	}
	s.flush(sources, log)
	s.pause = min(max(2*s.pause, skipLogPause), skipLogMost)
	s.next = now.Add(s.pause)
}

// flush logs the reasons whose counts have grown. Reasons that the configuration asks for are no warnings.
func (s *skipLog) flush(sources []state.SourceStats, log *slog.Logger) {
	for why, n := range s.count.All() {
		since := n - s.logged.Of(why)
		if since == 0 {
			continue
		}
		level, last := slog.LevelWarn, s.last[why]
		if why.Configured() {
			level = slog.LevelInfo
		}
		keys := []any{event.DocumentsSkipped, "reason", why, "what", why.Text(), "skipped", n,
			"since_last_logged", since, "last_document", last.sequence}
		if last.source < len(sources) {
			keys = append(keys, "source", sources[last.source].Name)
		}
		log.Log(context.Background(), level, "documents skipped", append(keys, "do", why.Do())...)
	}
	s.logged = s.count
}
