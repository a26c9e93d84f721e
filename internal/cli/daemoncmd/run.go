package daemoncmd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/event"
)

// serve runs a daemon until it fails or ctx ends, then stops it within the configured time. Readers with an open
// stream receive the cause before their connections end. again reads the configuration again; a running daemon
// applies only its limits. On a terminal, which is nil otherwise, the log starts with a banner. Its link opens the page
// and does not belong in stored logs.
func serve(
	ctx context.Context, c config.Config, again func() (config.Config, error), log *slog.Logger, terminal *os.File,
) error {
	var announced atomic.Bool
	if terminal != nil && c.Log.Level == config.Default().Log.Level {
		log = slog.New(startHandler{log.Handler(), &announced})
	}
	var started atomic.Pointer[daemon.Daemon]
	defer outlive(log, func() {
		d := started.Load()
		if d == nil {
			return
		}
		d.Reload()
		c, err := again()
		if err != nil {
			log.Error("cannot reload the configuration; limits are unchanged", "error", err)
			return
		}
		d.ApplyLimits(c)
	})()
	d, err := daemon.Start(ctx, c, log)
	if err != nil {
		return fmt.Errorf("start daemon: %w", err)
	}
	started.Store(d)
	if terminal != nil {
		_ = writeBanner(terminal, c, d) // as for the log, an error does not stop the daemon
	}
	announced.Store(true)
	ended := make(chan error, 1)
	go func() { ended <- d.Wait() }()
	var failed error
	select {
	case failed = <-ended:
		log.Error("run failed", event.DaemonFailed, "error", failed)
	case <-ctx.Done():
	}
	log.Info("stopping", event.DaemonStopping, "timeout", c.Shutdown.Timeout)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Shutdown.Timeout)
	defer cancel()
	if err := d.Stop(bounded); err != nil && failed == nil {
		return fmt.Errorf("stop daemon: %w", err)
	}
	return failed
}
