package server

import "golang.org/x/sys/windows"

// noSpace are the errors of a write that fails for lack of space.
var noSpace = []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED}

// diskFree returns how much this user may still write to the volume of a folder, in bytes.
func diskFree(folder string) (int64, error) {
	name, err := windows.UTF16PtrFromString(folder)
	if err != nil {
		return 0, err
	}
	var free, total, all uint64
	err = windows.GetDiskFreeSpaceEx(name, &free, &total, &all)
	return int64(free), err
}
