//go:build !amd64 || purego

// Package cpufeature tells which kernels in assembly the processor has what they need for. Here are none.
package cpufeature

// AVX2 reports whether kernels may use AVX2, BMI1, BMI2 and POPCNT.
const AVX2 = false
