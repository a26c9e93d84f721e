package backend

import (
	"time"

	"loaderd/internal/humanize"
)

// Connection is the state of a daemon's connection to the servers of its streams.
type Connection struct {
	Up      bool            `json:"up"`                // streams can be read and written
	Since   time.Time       `json:"since,omitzero"`    // when Up changed last
	Error   string          `json:"error,omitempty"`   // last error since then
	Storage *StorageFailure `json:"storage,omitempty"` // why the embedded server cannot write; nil if it can
}

// StorageFailure is a failed write of the embedded server.
type StorageFailure struct {
	Path  string `json:"path"`  // data folder
	Free  int64  `json:"free"`  // free bytes on its disk; -1 if unknown
	Full  bool   `json:"full"`  // the write failed for lack of space
	Error string `json:"error"` // of the server
}

// String returns a short description of the connection.
func (c *Connection) String() string {
	switch {
	case c == nil:
		return "unknown"
	case c.Up:
		return "up"
	case c.Error == "":
		return "down, " + humanize.Time(time.Since(c.Since))
	}
	return "down, " + humanize.Time(time.Since(c.Since)) + ": " + c.Error
}
