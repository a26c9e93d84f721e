//go:build !linux

package tokenizer

func onHugePages[T any]([]T) {}
