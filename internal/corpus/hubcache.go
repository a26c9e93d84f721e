package corpus

import (
	"fmt"
	"os"
	"path/filepath"
)

// Folders of a repository in the cache of the Hugging Face hub. A snapshot has symbolic links to the blobs, under the names that the files have on the hub.
const (
	cacheSnapshots = "snapshots"
	cacheBlobs     = "blobs"
)

// cacheRepository returns the repository of the hub's cache whose snapshots a path lies in; false for any other path.
func cacheRepository(name string) (string, bool) {
	for dir := filepath.Dir(name); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if filepath.Base(dir) == cacheSnapshots && isCacheRepository(filepath.Dir(dir)) {
			return filepath.Dir(dir), true
		}
	}
	return "", false
}

// isCacheRepository reports whether a folder has both blobs and snapshots.
func isCacheRepository(dir string) bool {
	for _, name := range []string{cacheBlobs, cacheSnapshots} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// isCacheLink reports whether a symbolic link is a file of a snapshot: it leads to a regular file among the blobs of its own repository.
func isCacheLink(name string) bool {
	repository, ok := cacheRepository(name)
	if !ok {
		return false
	}
	target, err := filepath.EvalSymlinks(name)
	if err != nil {
		return false
	}
	blobs, err := filepath.EvalSymlinks(filepath.Join(repository, cacheBlobs))
	if err != nil || filepath.Dir(target) != blobs {
		return false
	}
	info, err := os.Lstat(target)
	return err == nil && info.Mode().IsRegular()
}

// resolved is a path without symbolic links, apart from the last one where it is a file of a snapshot: its name says what it is, that of its blob does not.
func resolved(name string) (string, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(name))
	if err != nil {
		return "", err
	}
	if file := filepath.Join(dir, filepath.Base(name)); isCacheLink(file) {
		return file, nil
	}
	return filepath.EvalSymlinks(name)
}

// checkSnapshots refuses a repository of several snapshots, which would mostly be the same files several times.
func checkSnapshots(dir string) error {
	if !isCacheRepository(dir) {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(dir, cacheSnapshots))
	if err != nil {
		return err
	}
	if len(entries) > 1 {
		return fmt.Errorf("%s has %d snapshots of a repository: give the folder of one, %s", dir, len(entries), filepath.Join(dir, cacheSnapshots, entries[0].Name()))
	}
	return nil
}
