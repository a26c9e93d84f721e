//go:build (!amd64 && !arm64) || purego

// Package cpufeature reports whether the processor supports the assembly kernels. Here none exist.
package cpufeature

// Kernels reports whether kernels may run.
const Kernels = false
