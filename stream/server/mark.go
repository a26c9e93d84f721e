package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrOtherCluster says that a data folder belongs to a server of another cluster, or to one that stands alone, than the one that is started.
var ErrOtherCluster = errors.New("data folder belongs to another server")

// markFormat is the version of the mark's form, and of the folder's: from the second on its streams are in accounts.
const markFormat = 2

// mark says what kind of server a data folder belongs to. A member of a cluster deletes the streams of a server that stood alone, and
// a server alone takes no part in what the other members store.
type mark struct {
	Format  int    `json:"format"`
	Cluster string `json:"cluster"` // empty: it stands alone
	Server  string `json:"server"`  // the name of the server, which other members know it by
}

// kind is the mark in words.
func (m mark) kind() string {
	if m.Cluster == "" {
		return "a server that stands alone"
	}
	return "a member of cluster " + m.Cluster
}

// claim marks a folder that has no mark, and returns the mark that it has. The folder must be held. A folder with streams and without a mark
// is one of a server that stood alone: marks came with clusters.
func (f *folder) claim(want mark) (mark, error) {
	name := filepath.Join(f.path, "server.json")
	want.Format = markFormat
	is, err := readMark(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && f.hasStreams():
		is = mark{1, "", aloneName}
	case errors.Is(err, fs.ErrNotExist):
		is = want
	case err != nil:
		return is, err
	}
	if is.Cluster != want.Cluster {
		return is, fmt.Errorf("open data folder %s (stream.dir): %w: it is of %s, not of %s (stream.cluster.name); give this server a folder of its own, "+
			"and copy what the other one holds with loaderd cluster migrate", f.path, ErrOtherCluster, is.kind(), want.kind())
	}
	if is.Format < 2 {
		if is.Cluster != "" {
			return is, fmt.Errorf("open data folder %s (stream.dir): it is of a cluster that an earlier version of loaderd made, whose streams are in no accounts: start "+
				"members of this version on new folders, and copy the runs with loaderd cluster migrate, while the earlier version runs the old ones", f.path)
		}
		if err := f.intoAccounts(); err != nil {
			return is, err
		}
		is.Format = markFormat
	}
	return is, writeMark(name, is)
}

// hasStreams says whether a server has kept streams in the folder, or may have.
func (f *folder) hasStreams() bool {
	_, err := os.Stat(filepath.Join(f.path, "jetstream"))
	return !errors.Is(err, fs.ErrNotExist)
}

func readMark(name string) (m mark, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return m, fmt.Errorf("read mark of data folder (stream.dir): %w", err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("read mark of data folder %s: %w: it says which servers the folder belongs to; restore it from a backup", name, err)
	}
	if m.Format < 1 || m.Format > markFormat || m.Server == "" {
		return m, fmt.Errorf("read mark of data folder %s: format %d, server %q: want format %d at most and a name; another version of loaderd wrote it", name,
			m.Format, m.Server, markFormat)
	}
	return m, nil
}

// writeMark writes the mark whole or not at all, and on disk before the server writes anything.
func writeMark(name string, m mark) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write mark of data folder %s: %w", name, err)
	}
	text = append(text, '\n')
	if present, err := os.ReadFile(name); err == nil && string(present) == string(text) {
		return nil
	}
	return writeWhole(name, text)
}
