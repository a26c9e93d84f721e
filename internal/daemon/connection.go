package daemon

import (
	"errors"

	"loaderd/loader"
	"loaderd/stream/conn"
	"loaderd/stream/server"
)

// connection converts the store's status for the run.
func connection(s conn.Status) loader.Connection {
	c := loader.Connection{Up: s.Connected, Since: s.Since}
	if s.Err != nil {
		c.Error = s.Err.Error()
	}
	if failed := (*server.StorageError)(nil); errors.As(s.Err, &failed) {
		c.Storage = &loader.StorageFailure{Path: failed.Path, Free: failed.Free, Full: failed.Full, Error: failed.Message}
	}
	return c
}
