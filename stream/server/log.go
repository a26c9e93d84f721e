package server

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"loaderd/stream/proxy"
)

// serverLog passes the embedded server's log lines to slog and its fatal errors to the goroutine that starts it.
type serverLog struct {
	log   *slog.Logger
	fatal chan error // buffered: the first fatal error
	// clients are the addresses of clients of the proxy.
	clients *proxy.Addresses

	mu       sync.Mutex
	limiters map[string]*lineLimiter
}

// lineLimiter limits lines of one kind, because clients can cause any number of them: a few are logged, then one
// per second.
type lineLimiter struct {
	limiter    rate.Sometimes
	suppressed int // not logged since the last one
}

const (
	firstLines   = 20
	lineInterval = time.Second
)

// logLimited logs some of the lines of a kind, with the number of suppressed ones. The kind is the message of a known
// line, else the text after the client's name, which the client can choose freely.
func (l *serverLog) logLimited(level slog.Level, format string, v []any) {
	format = l.withAddress(format)
	message, keys, known := translate(format, v)
	kind := message
	if !known {
		message, kind = fmt.Sprintf(format, v...), format[strings.LastIndex(format, " - ")+1:]
	}
	tell := -1
	l.mu.Lock()
	f := l.limiters[kind]
	if f == nil {
		f = &lineLimiter{limiter: rate.Sometimes{First: firstLines, Interval: lineInterval}}
		if l.limiters == nil {
			l.limiters = map[string]*lineLimiter{}
		}
		l.limiters[kind] = f
	}
	f.suppressed++
	f.limiter.Do(func() { tell, f.suppressed = f.suppressed-1, 0 })
	l.mu.Unlock()
	if tell > 0 {
		keys = append(keys, "like_it_before", tell)
	}
	if tell >= 0 {
		l.log.Log(context.Background(), level, message, keys...)
	}
}

// inProcess matches the start of a line about a client in this process.
var inProcess = regexp.MustCompile(`^pipe - cid:(\d+) - `)

// withAddress returns a line with the address of its client.
func (l *serverLog) withAddress(format string) string {
	client := inProcess.FindStringSubmatch(format)
	if client == nil {
		return format
	}
	address := l.clients.Find(client[1])
	if address == "" {
		return format
	}
	return strings.ReplaceAll(address, "%", "%%") + strings.TrimPrefix(format, "pipe")
}

func (l *serverLog) write(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, fmt.Sprintf(format, v...))
	}
}

// Noticef logs the server's start and stop at debug level. It logs at warning level that the server has disconnected
// a client that reads too slowly.
func (l *serverLog) Noticef(format string, v ...any) {
	if strings.Contains(format, "Slow Consumer Detected: ") || strings.Contains(format, "Slow Consumer %s: ") {
		l.logLimited(slog.LevelWarn, format, v)
		return
	}
	l.write(slog.LevelDebug, format, v)
}

func (l *serverLog) Errorf(format string, v ...any) { l.logLimited(slog.LevelError, format, v) }
func (l *serverLog) Debugf(format string, v ...any) { l.write(slog.LevelDebug-1, format, v) }
func (l *serverLog) Tracef(format string, v ...any) { l.write(slog.LevelDebug-2, format, v) }

// Warnf logs the server's advice against large payloads at debug level, because documents are large.
func (l *serverLog) Warnf(format string, v ...any) {
	if strings.HasPrefix(format, "Maximum payloads over") {
		l.write(slog.LevelDebug, format, v)
		return
	}
	l.logLimited(slog.LevelWarn, format, v)
}

// Fatalf does not end the process, although the server expects that. The daemon decides.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.write(slog.LevelError, format, v)
	select {
	case l.fatal <- fmt.Errorf(format, v...):
	default:
	}
}
