package diskspace

import "golang.org/x/sys/windows"

// NoSpace are the errors of a write that fails for lack of space.
var NoSpace = []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED}

// Free returns how much this user may still write to the volume of a folder, in bytes.
func Free(folder string) (int64, error) {
	name, err := windows.UTF16PtrFromString(folder)
	if err != nil {
		return 0, err
	}
	var free, total, all uint64
	err = windows.GetDiskFreeSpaceEx(name, &free, &total, &all)
	return int64(free), err
}
