package daemoncmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/stream"
)

// writeBanner writes how to watch the run, to train and to publish.
func writeBanner(w io.Writer, c config.Config, d *daemon.Daemon) error {
	publish := "loaderd publish PATH..."
	switch {
	case !c.Stream.Embedded():
		publish += " --daemon NATS-URL"
	case c.Stream.Dir != stream.Default().Dir:
		publish += " --daemon " + c.Stream.Dir
	}
	_, err := fmt.Fprintf(w, "page     %s\ntrain    loaderd.torch.StepLoader(%q)\npublish  %s\n", d.PageLink(),
		d.FlightURI(), publish)
	return err
}

// startHandler is a log handler that handles only warnings and errors until started is set, so that the banner is the
// first output.
type startHandler struct {
	slog.Handler
	started *atomic.Bool
}

func (h startHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return (level >= slog.LevelWarn || h.started.Load()) && h.Handler.Enabled(ctx, level)
}

func (h startHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return startHandler{h.Handler.WithAttrs(attrs), h.started}
}

func (h startHandler) WithGroup(name string) slog.Handler {
	return startHandler{h.Handler.WithGroup(name), h.started}
}
