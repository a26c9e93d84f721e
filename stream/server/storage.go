package server

import (
	"fmt"
	"strings"

	"loaderd/internal/diskspace"
	"loaderd/internal/humanize"
)

// StorageError is a failed write of the server to its data folder. The server does not write to that stream again
// until it is restarted.
type StorageError struct {
	Path    string // data folder
	Free    int64  // free bytes on its disk now; -1 if unknown
	Full    bool   // the write failed for lack of space
	Message string // of the server
}

func (e *StorageError) Error() string {
	do := "look for a failing disk"
	if e.Full {
		do = "make room"
	}
	free := ""
	if e.Free >= 0 {
		free = fmt.Sprintf(" (%s free)", humanize.Bytes(e.Free))
	}
	return fmt.Sprintf("embedded NATS server in %s%s: %s: %s, then restart the daemon", e.Path, free, e.Message, do)
}

// writeError is part of the server's health check error for a stream that it cannot write.
const writeError = "write error"

// minFreeSpace is the free space in bytes below which a failed write counts as lack of space.
const minFreeSpace = 64 << 10

// isOutOfSpace reports whether a message of the server names lack of space as the cause of a failed write. The health
// check returns errors of the operating system only as text.
func isOutOfSpace(message string) bool {
	for _, err := range diskspace.NoSpace {
		if strings.Contains(message, err.Error()) {
			return true
		}
	}
	return false
}
