//go:build !race

package loader

const overwrites = false
