package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// ErrFolderInUse reports that another process runs its server on the data folder.
var ErrFolderInUse = errors.New("data folder is in use")

// dataFolder is the embedded server's data folder, locked by this process.
type dataFolder struct {
	path   string
	lock   *flock.Flock
	holder folderHolder
}

// folderHolder is the content of the lock file: the process that holds the folder.
type folderHolder struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	NATS    string    `json:"nats,omitempty"` // client address of its server, once it accepts clients
}

// lockFolder creates the folder if it does not exist and locks it. The kernel releases the lock when the process
// ends, whatever the cause.
func lockFolder(path string) (*dataFolder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create data folder (stream.dir): %w", err)
	}
	name := filepath.Join(path, "lock")
	lock := flock.New(name, flock.SetPermissions(0o600))
	held, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock data folder %s (stream.dir): %w", path, err)
	}
	if !held {
		return nil, fmt.Errorf("lock data folder %s: %w by %s: stop that daemon or give this one another folder (stream.dir)",
			path,
			ErrFolderInUse, describeHolder(name))
	}
	host, _ := os.Hostname() // the name is for people only; without it the pid has to suffice
	f := &dataFolder{path, lock, folderHolder{Host: host, PID: os.Getpid(),
		Started: time.Now().UTC().Truncate(time.Second)}}
	if err := f.write(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return f, nil
}

// announce records the client address of the holder's server.
func (f *dataFolder) announce(url string) error {
	f.holder.NATS = url
	return f.write()
}

func (f *dataFolder) write() error {
	name := filepath.Join(f.path, "lock")
	text, err := json.Marshal(f.holder)
	if err == nil {
		err = os.WriteFile(name, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write lock file %s: %w", name, err)
	}
	return nil
}

// HolderURL returns the client address of the server that holds a data folder; empty if the lock file has none.
func HolderURL(dir string) string {
	h, _ := readHolder(filepath.Join(dir, "lock"))
	return h.NATS
}

func readHolder(name string) (h folderHolder, ok bool) {
	text, err := os.ReadFile(name)
	return h, err == nil && json.Unmarshal(text, &h) == nil && h.PID != 0
}

func describeHolder(name string) string {
	h, ok := readHolder(name)
	if !ok {
		return "another process"
	}
	return fmt.Sprintf("process %d on %s, started %s", h.PID, h.Host, h.Started.Format(time.RFC3339))
}

func (f *dataFolder) release() error {
	if err := f.lock.Close(); err != nil {
		return fmt.Errorf("unlock data folder %s: %w", f.path, err)
	}
	return nil
}
