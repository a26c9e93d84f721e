package leader

import (
	"context"
	"log/slog"
	"time"

	"loaderd/internal/event"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// Skipped documents are logged skipLogDelay after the first one, when thousands may have accumulated, and then at
// growing intervals.
const (
	skipLogDelay    = time.Second
	minSkipLogPause = 10 * time.Second
	maxSkipLogPause = time.Hour
)

// skipLog logs skipped documents, one line per reason.
type skipLog struct {
	count      plan.Skips
	logged     plan.Skips // counts at the last log line
	last       map[plan.Skip]skippedDocument
	nextLineAt time.Time // earliest time of the next log line
	pause      time.Duration
}

// skippedDocument names a document.
type skippedDocument struct {
	source   int
	sequence uint64
}

func newSkipLog(count plan.Skips) skipLog {
	return skipLog{count: count, logged: count, last: map[plan.Skip]skippedDocument{}}
}

// observe records how many documents have been skipped up to and including one.
func (s *skipLog) observe(source int, sequence uint64, count plan.Skips) {
	if count == s.count {
		return
	}
	for why, n := range count.All() {
		if n != s.count.Count(why) {
			s.last[why] = skippedDocument{source, sequence}
		}
	}
	s.count = count
}

// markLogged marks the current counts as logged, because they were logged before the restart.
func (s *skipLog) markLogged() { s.logged = s.count }

// logIfDue logs the reasons whose counts have grown, if the next log line is due.
func (s *skipLog) logIfDue(now time.Time, sources []state.SourceStats, log *slog.Logger) {
	switch {
	case s.count == s.logged:
		return
	case s.nextLineAt.IsZero():
		s.nextLineAt = now.Add(skipLogDelay)
	}
	if now.Before(s.nextLineAt) {
		return
	}
	s.flush(sources, log)
	s.pause = min(max(2*s.pause, minSkipLogPause), maxSkipLogPause)
	s.nextLineAt = now.Add(s.pause)
}

// flush logs the reasons whose counts have grown. Reasons that the configuration causes are not logged as warnings.
func (s *skipLog) flush(sources []state.SourceStats, log *slog.Logger) {
	for why, n := range s.count.All() {
		since := n - s.logged.Count(why)
		if since == 0 {
			continue
		}
		level, last := slog.LevelWarn, s.last[why]
		if why.IsConfigured() {
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
