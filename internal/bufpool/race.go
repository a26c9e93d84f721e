//go:build race

package bufpool

// OverwritesReturned reports whether returned buffers are overwritten.
const OverwritesReturned = true
