//go:build unix && !linux

package lookup

func onHugePages([]byte) {}
