//go:build !amd64 || purego

// Package cpufeature reports which assembly kernels the processor supports. Here it supports none.
package cpufeature

// AVX2 reports whether kernels may use AVX2, BMI1, BMI2 and POPCNT.
const AVX2 = false
