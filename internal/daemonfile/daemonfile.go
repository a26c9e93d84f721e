// Package daemonfile reads and writes the addresses of a running daemon in its data folder, where commands on the same
// machine find them.
package daemonfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"loaderd/internal/auth"
)

// Name is the file in the data folder.
const Name = "daemon.json"

// Addresses are the addresses of a daemon's servers. That of the embedded NATS server is in the folder's lock file
// (server.HolderURL), because it is known earlier.
type Addresses struct {
	PID    int    `json:"pid"`
	Run    string `json:"run"`
	Flight string `json:"flight"` // grpc://HOST:PORT or grpc+tls://HOST:PORT
	HTTP   string `json:"http"`   // http://HOST:PORT or https://HOST:PORT
}

// Write replaces the file of a data folder.
func Write(dir string, a Addresses) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if err := auth.WritePrivate(filepath.Join(dir, Name), append(text, '\n')); err != nil {
		return fmt.Errorf("write the daemon's addresses: %w", err)
	}
	return nil
}

// Read returns the addresses in a data folder, and none if no daemon has written them. After a daemon was killed, they
// are those of that daemon.
func Read(dir string) (a Addresses, err error) {
	text, err := os.ReadFile(filepath.Join(dir, Name))
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		return Addresses{}, fmt.Errorf("read the daemon's addresses in %s: %w", dir, err)
	}
	return a, nil
}

// Remove removes the file, unless another process has written it.
func Remove(dir string, pid int) error {
	a, err := Read(dir)
	if err != nil || a.PID != pid {
		return err
	}
	return os.Remove(filepath.Join(dir, Name))
}
