//go:build !linux

package lookup

func onHugePages[T any]([]T) {}
