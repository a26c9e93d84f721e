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

// RunStoreWait is how long a server may take to answer at the start.
const RunStoreWait = 30 * time.Second

// OpenRunStore opens the streams of a configuration: at the servers of stream.url, else in the data folder, or, while a
// daemon holds the folder, at the server inside that daemon.
func OpenRunStore(ctx context.Context, c config.Config, log *slog.Logger) (*stream.Store, error) {
	if c.Stream.Embedded() {
		if _, err := os.Stat(c.Stream.Dir); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf(
				"data folder %s does not exist: name the one of the daemon with --data-dir, or its NATS servers with --nats",
				c.Stream.Dir)
		}
		store, err := stream.OpenAlone(ctx, c.Stream, log)
		if !errors.Is(err, server.ErrFolderInUse) {
			return store, err
		}
		// a command like this one, or a daemon that starts or stops
		if c.Stream.URL = server.HolderURL(c.Stream.Dir); c.Stream.URL == "" {
			return nil, err
		}
	}
	return Connect(ctx, c.Stream, RunStoreWait, log, stream.Open)
}

// CloseAfter closes a store and joins the error of the work on it with those of closing. After an error it first
// removes what the work has created.
func CloseAfter(ctx context.Context, store *stream.Store, failed error) error {
	if failed != nil {
		failed = errors.Join(failed, store.Withdraw(context.WithoutCancel(ctx)))
	}
	return errors.Join(failed, store.Close())
}
