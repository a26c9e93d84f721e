package natstest

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// ReadFolder returns the content of every file of a data folder by its path, except that of the lock file, which every
// process that opens the folder writes. Directories have a path that ends in a slash.
func ReadFolder(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == filepath.Join(dir, "lock") {
			return err
		}
		if entry.IsDir() {
			files[path+"/"] = ""
			return nil
		}
		content, err := os.ReadFile(path)
		files[path] = string(content)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return files
}
