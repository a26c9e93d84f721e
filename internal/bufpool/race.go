//go:build race

package bufpool

// Overwrites reports whether buffers that are put back are overwritten.
const Overwrites = true
