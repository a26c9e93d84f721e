package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"loaderd/internal/config"
	"loaderd/stream"
	"loaderd/stream/server"
)

// RunStoreWait is the time limit of the first connection to a server.
const RunStoreWait = 30 * time.Second

// OpenRunStore opens the streams of a configuration. It connects to the servers of stream.url, or opens the data
// folder. While a daemon holds the folder, it connects to that daemon's embedded server.
func OpenRunStore(ctx context.Context, c config.Config, log *slog.Logger) (*stream.Store, error) {
	if c.Stream.Embedded() {
		if _, err := os.Stat(c.Stream.Dir); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf(
				"data folder %s does not exist: name the daemon's data folder or NATS servers with --daemon",
				c.Stream.Dir)
		}
		store, err := stream.OpenExclusive(ctx, c.Stream, log)
		if !errors.Is(err, server.ErrFolderInUse) {
			return store, err
		}
		// The folder is held by a command like this one, or by a daemon that starts or stops.
		if c.Stream.URL = server.HolderURL(c.Stream.Dir); c.Stream.URL == "" {
			return nil, err
		}
	}
	return Connect(ctx, c.Stream, RunStoreWait, log, stream.Open)
}

// CloseAfter closes a store and joins the errors of the work and of closing. After an error of the work it first
// removes the streams that the work created and left empty.
func CloseAfter(ctx context.Context, store *stream.Store, failed error) error {
	if failed != nil {
		failed = errors.Join(failed, store.RemoveEmptyStreams(context.WithoutCancel(ctx)))
	}
	return errors.Join(failed, store.Close())
}
