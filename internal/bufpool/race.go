//go:build race

package bufpool

// Overwrites reports whether returned buffers are overwritten.
const Overwrites = true
