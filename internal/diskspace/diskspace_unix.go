//go:build unix

package diskspace

import "golang.org/x/sys/unix"

// NoSpace are the errors of a write that fails for lack of space.
var NoSpace = []error{unix.ENOSPC, unix.EDQUOT}

// Free returns how much users without privileges may still write to the file system of a folder, in bytes.
func Free(folder string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil
}
