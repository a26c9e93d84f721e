package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// outlive keeps the daemon going when its terminal closes, until the function that it returns is called. SIGHUP is logged and changes nothing (other
// daemons read their configuration again). SIGPIPE, from a log that nobody reads any more, is ignored: the log is lost, the daemon goes on.
func outlive(log *slog.Logger) (restore func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGPIPE)
	go func() {
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGHUP {
					log.Warn("SIGHUP changes nothing: the configuration is read at the start alone, and the daemon outlives its terminal; SIGTERM stops it")
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}
