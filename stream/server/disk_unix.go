//go:build unix

package server

import "golang.org/x/sys/unix"

// noSpace are the errors of a write that fails for lack of space.
var noSpace = []error{unix.ENOSPC, unix.EDQUOT}

// diskFree returns how much users without privileges may still write to the file system of a folder, in bytes.
func diskFree(folder string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil
}
