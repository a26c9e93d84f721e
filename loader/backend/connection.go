package backend

import (
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
