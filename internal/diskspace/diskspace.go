// Package diskspace returns the free space of a file system, and the errors of a full one.
package diskspace
