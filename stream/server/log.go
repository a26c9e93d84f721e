package server

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// serverLog hands the embedded server's log lines to slog and its fatal errors to whoever waits for the start.
type serverLog struct {
	log   *slog.Logger
	fatal chan error // buffered: the first fatal error
}

func (l *serverLog) write(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, fmt.Sprintf(format, v...))
	}
}

// The server's notices are steps of its start and stop: details, to the daemon's user.

func (l *serverLog) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
func (l *serverLog) Errorf(format string, v ...any)  { l.write(slog.LevelError, format, v) }
func (l *serverLog) Debugf(format string, v ...any)  { l.write(slog.LevelDebug-1, format, v) }
func (l *serverLog) Tracef(format string, v ...any)  { l.write(slog.LevelDebug-2, format, v) }

// Warnf leaves out the advice against large payloads, which are large documents here.
func (l *serverLog) Warnf(format string, v ...any) {
	if strings.HasPrefix(format, "Maximum payloads over") {
		l.write(slog.LevelDebug, format, v)
		return
	}
	l.write(slog.LevelWarn, format, v)
}

// Fatalf does not end the process as the server means it to: the daemon decides.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.write(slog.LevelError, format, v)
	select {
	case l.fatal <- fmt.Errorf(format, v...):
	default:
	}
}
