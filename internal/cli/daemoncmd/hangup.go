package daemoncmd

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"loaderd/internal/event"
)

// outlive keeps the daemon running when its terminal closes, until the returned function is called. SIGHUP calls
// reload. SIGPIPE, from a log whose reader has exited, is ignored: the log output is lost and the daemon continues.
func outlive(log *slog.Logger, reload func()) (restore func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGPIPE)
	go func() {
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGHUP {
					log.Info("SIGHUP: reloading certificates, tokens, identities and limits of Flight; other settings need a "+
						"restart, and "+
						"SIGTERM stops the daemon", event.ConfigReloading)
					reload()
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
