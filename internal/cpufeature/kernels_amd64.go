//go:build !purego

// Package cpufeature reports whether the processor supports the assembly kernels. Plain Go code has the same results.
// It replaces the kernels with the build tag purego, on other processors, and with GODEBUG=cpu.avx2=off (amd64) or
// GODEBUG=cpu.asimd=off (arm64).
package cpufeature

import "golang.org/x/sys/cpu"

// Kernels reports whether kernels may run. They use AVX2, BMI1, BMI2 and POPCNT, which nearly all processors since 2013
// support.
var Kernels = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT
