package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"loaderd/internal/auth"
)

// ErrOtherCluster reports that a data folder belongs to another server than the one that is started: to a member of
// another cluster, or to a standalone server.
var ErrOtherCluster = errors.New("data folder belongs to another server")

// identityFormat is the format version of the mark and of the folder, whose streams are in accounts.
const identityFormat = 1

// folderIdentity records what kind of server a data folder belongs to. A cluster member would delete the streams of a
// standalone server, and a standalone server would not replicate what the other members store.
type folderIdentity struct {
	Format  int    `json:"format"`
	Cluster string `json:"cluster"` // empty: standalone server
	Server  string `json:"server"`  // the server's name in the cluster
}

// kind describes the mark in words.
func (m folderIdentity) kind() string {
	if m.Cluster == "" {
		return "a standalone server"
	}
	return "a member of cluster " + m.Cluster
}

// checkIdentity returns the mark that the folder gets or already has. It changes nothing. The folder must be held.
func (f *dataFolder) checkIdentity(want folderIdentity) (folderIdentity, error) {
	want.Format = identityFormat
	is, err := readIdentity(f.identityFile())
	switch {
	case errors.Is(err, fs.ErrNotExist) && f.hasStreams():
		return is, fmt.Errorf("open data folder %s (stream.dir): it holds streams but no %s: an incompatible version of "+
			"loaderd or another program wrote it; "+
			"run it with that version, or choose another folder", f.path, identityFileName)
	case errors.Is(err, fs.ErrNotExist):
		return want, nil
	case err != nil:
		return is, err
	}
	if is.Cluster != want.Cluster {
		return is, fmt.Errorf("open data folder %s (stream.dir): %w: it is of %s, not of %s (stream.cluster.name); give "+
			"this server its own folder, and copy what the other one holds with loaderd cluster "+
			"migrate", f.path, ErrOtherCluster, is.kind(), want.kind())
	}
	return is, nil
}

// identityFileName is the name of the mark's file in the data folder.
const identityFileName = "server.json"

func (f *dataFolder) identityFile() string { return filepath.Join(f.path, identityFileName) }

// hasStreams reports whether a server has stored streams in the folder, or may have.
func (f *dataFolder) hasStreams() bool {
	_, err := os.Stat(filepath.Join(f.path, "jetstream"))
	return !errors.Is(err, fs.ErrNotExist)
}

func readIdentity(name string) (m folderIdentity, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return m, fmt.Errorf("read mark of data folder (stream.dir): %w", err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf(
			"read mark of data folder %s: %w: it names the servers that the folder belongs to; restore it from a backup",
			name, err)
	}
	if m.Format != identityFormat || m.Server == "" {
		return m, fmt.Errorf("read mark of data folder %s: format %d, server %q: want format %d and a name; an "+
			"incompatible version of loaderd wrote it: "+
			"run it with that version, or choose another folder (stream.dir)", name, m.Format, m.Server, identityFormat)
	}
	return m, nil
}

// writeIdentity writes the mark atomically, and syncs it to disk before the server writes anything.
func writeIdentity(name string, m folderIdentity) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write mark of data folder %s: %w", name, err)
	}
	text = append(text, '\n')
	if present, err := os.ReadFile(name); err == nil && string(present) == string(text) {
		return nil
	}
	return auth.WritePrivate(name, text)
}
