//go:build unix && !linux

package wordcache

func onHugePages([]byte) {}
