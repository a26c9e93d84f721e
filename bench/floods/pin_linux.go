package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// processors returns the processors that this process may run on, in order.
func processors() (all []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read the processors of this process: %w", err)
	}
	for n := range len(set) * strconv.IntSize {
		if set.IsSet(n) {
			all = append(all, n)
		}
	}
	return all, nil
}

// pin limits all threads of this process, and the processes that they start, to some processors.
func pin(on []int) error {
	var set unix.CPUSet
	for _, n := range on {
		set.Set(n)
	}
	for range 2 { // a thread started meanwhile may inherit the old set
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) { // the thread has ended
				return fmt.Errorf("pin to processors %v: %w", on, err)
			}
		}
	}
	runtime.GOMAXPROCS(len(on))
	return nil
}
