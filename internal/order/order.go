// Package order sorts lists that are short or seldom sorted. The functions of package slices are compiled anew for every type of struct, which makes the program
// 15 kB larger each time; those here are one piece of code for all types, half as fast.
package order

import (
	"iter"
	"slices"
	"sort"
)

// Sort is slices.SortFunc.
func Sort[T any](list []T, compare func(a, b T) int) {
	sort.Slice(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}

// SortStable is slices.SortStableFunc.
func SortStable[T any](list []T, compare func(a, b T) int) {
	sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}

// Sorted is slices.SortedFunc.
func Sorted[T any](list iter.Seq[T], compare func(a, b T) int) []T {
	sorted := slices.Collect(list)
	Sort(sorted, compare)
	return sorted
}
