package loader

import (
	"context"
	"time"

	"loaderd/internal/quantity"
)

// Connection is the state of a daemon's connection to the servers of its streams.
type Connection struct {
	Up      bool            `json:"up"`                // streams can be read and written
	Since   time.Time       `json:"since,omitzero"`    // when Up became what it is
	Error   string          `json:"error,omitempty"`   // the last one since then
	Storage *StorageFailure `json:"storage,omitempty"` // why the server inside the daemon cannot write; nil if it can
}

// StorageFailure is a failed write of the server inside the daemon.
type StorageFailure struct {
	Path  string `json:"path"`  // data folder
	Free  int64  `json:"free"`  // bytes that are free on its disk; -1 if unknown
	Full  bool   `json:"full"`  // the write failed for lack of space
	Error string `json:"error"` // of the server
}

// String describes the connection in a few words.
func (c *Connection) String() string {
	switch {
	case c == nil:
		return "unknown"
	case c.Up:
		return "up"
	case c.Error == "":
		return "down, " + quantity.Time(time.Since(c.Since))
	}
	return "down, " + quantity.Time(time.Since(c.Since)) + ": " + c.Error
}

// connectionEvery is how often the state of the connection is taken.
const connectionEvery = time.Second

// watchConnection keeps the state of this daemon's connection until ctx ends. Reports do not take it themselves: the
// server inside the daemon checks each of its streams for it, which takes long while its disk hangs.
func (o *office) watchConnection(ctx context.Context) {
	if o.edges.Connection == nil {
		return
	}
	tick := time.NewTicker(connectionEvery)
	defer tick.Stop()
	for {
		c := o.edges.Connection()
		o.connection.Store(&c)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
