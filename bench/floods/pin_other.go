//go:build !linux

package main

import (
	"errors"
	"runtime"
)

func processors() ([]int, error) {
	return nil, errors.New("processes cannot be pinned to processors on " + runtime.GOOS + ": run it on Linux")
}

func pin([]int) error { return nil }
