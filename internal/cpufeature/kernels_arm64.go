//go:build !purego

// Package cpufeature reports whether the processor supports the assembly kernels. Plain Go code has the same results.
// It replaces the kernels with the build tag purego, on other processors, and with GODEBUG=cpu.avx2=off (amd64) or
// GODEBUG=cpu.asimd=off (arm64).
package cpufeature

import "golang.org/x/sys/cpu"

// Kernels reports whether kernels may run. They use NEON as of ARMv8.0, which all arm64 processors support.
var Kernels = cpu.ARM64.HasASIMD
