// Package hubcache recognises repositories in the cache of the Hugging Face hub, whose snapshots are symbolic links.
package hubcache

import (
	"fmt"
	"os"
	"path/filepath"
)

// Folders of a repository. A snapshot has symbolic links to the blobs, with the names of the files on the hub.
const (
	Snapshots = "snapshots"
	blobs     = "blobs"
)

// repositoryOf returns the repository whose snapshots contain a path, false for any other path.
func repositoryOf(name string) (string, bool) {
	for dir := filepath.Dir(name); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if filepath.Base(dir) == Snapshots && IsRepository(filepath.Dir(dir)) {
			return filepath.Dir(dir), true
		}
	}
	return "", false
}

// IsRepository reports whether a folder has both blobs and snapshots.
func IsRepository(dir string) bool {
	for _, name := range []string{blobs, Snapshots} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// IsLink reports whether a symbolic link is a file of a snapshot: its target is a regular file among the blobs of its
// own repository.
func IsLink(name string) bool {
	repository, ok := repositoryOf(name)
	if !ok {
		return false
	}
	target, err := filepath.EvalSymlinks(name)
	if err != nil {
		return false
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(repository, blobs))
	if err != nil || filepath.Dir(target) != dir {
		return false
	}
	info, err := os.Lstat(target)
	return err == nil && info.Mode().IsRegular()
}

// Resolve returns a path without symbolic links, except for a last element that is a file of a snapshot. Its name has
// the extension of its format, while the name of its blob has not.
func Resolve(name string) (string, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(name))
	if err != nil {
		return "", err
	}
	if file := filepath.Join(dir, filepath.Base(name)); IsLink(file) {
		return file, nil
	}
	return filepath.EvalSymlinks(name)
}

// CheckSnapshots returns an error for a repository with several snapshots, which usually repeat most files.
func CheckSnapshots(dir string) error {
	if !IsRepository(dir) {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(dir, Snapshots))
	if err != nil {
		return err
	}
	if len(entries) > 1 {
		return fmt.Errorf("%s has %d snapshots of a repository: pass the folder of one, %s",
			dir, len(entries), filepath.Join(dir, Snapshots, entries[0].Name()))
	}
	return nil
}
