package daemon

import (
	"errors"

	"loaderd/loader/backend"
	"loaderd/stream/conn"
	"loaderd/stream/server"
)

// backendConnection converts the store's connection status to that of package backend.
func backendConnection(s conn.Status) backend.Connection {
	c := backend.Connection{Up: s.Connected, Since: s.Since}
	if s.Err != nil {
		c.Error = s.Err.Error()
	}
	if failed := (*server.StorageError)(nil); errors.As(s.Err, &failed) {
		c.Storage = &backend.StorageFailure{Path: failed.Path, Free: failed.Free, Full: failed.Full, Error: failed.Message}
	}
	return c
}
