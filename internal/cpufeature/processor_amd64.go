//go:build !purego

// Package cpufeature tells which kernels in assembly the processor has what they need for. All that they do, plain Go
// does as well: they are left out by the build tag purego, on other processors, and where GODEBUG=cpu.avx2=off says so.
package cpufeature

import "golang.org/x/sys/cpu"

// AVX2 reports whether kernels may use AVX2, BMI1, BMI2 and POPCNT, as nearly all processors since 2013 can.
var AVX2 = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT
