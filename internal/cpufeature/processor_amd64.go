//go:build !purego

// Package cpufeature reports which assembly kernels the processor supports. Plain Go code has the same results. It
// replaces the kernels with the build tag purego, on other processors, and with GODEBUG=cpu.avx2=off.
package cpufeature

import "golang.org/x/sys/cpu"

// AVX2 reports whether kernels may use AVX2, BMI1, BMI2 and POPCNT, which nearly all processors since 2013 support.
var AVX2 = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT
