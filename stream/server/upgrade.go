package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// accountBefore is where a server kept all streams before it had accounts.
const accountBefore = "$G"

// ownStreams are what the names of the daemon's own streams begin with.
var ownStreams = []string{"PLAN_", "OBJ_CHECKPOINTS_", "KV_loaderd_checkpoints", "KV_loaderd_floors", "KV_loaderd_leads"}

// intoAccounts puts the streams of a folder, which a server without accounts wrote, where a server with accounts looks for them: each is a folder, which
// moves at once. Broken off, it goes on where it was.
func (f *folder) intoAccounts() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("put the streams of data folder %s into accounts: %w", f.path, err)
		}
	}()
	all := filepath.Join(f.path, "jetstream")
	before := filepath.Join(all, accountBefore, "streams")
	streams, err := os.ReadDir(before)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, s := range streams {
		to := filepath.Join(all, accountOf(s.Name()), "streams")
		if err := os.MkdirAll(to, 0o750); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(before, s.Name()), filepath.Join(to, s.Name())); err != nil {
			return err
		}
		if err := syncFolder(to); err != nil {
			return err
		}
	}
	return syncFolder(before)
}

// accountOf is the account to which a stream of a name belongs.
func accountOf(stream string) string {
	for _, own := range ownStreams {
		if strings.HasPrefix(stream, own) {
			return accountOwn
		}
	}
	return accountDocuments
}
