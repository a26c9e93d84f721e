// Package tokenstore caches tokenized documents on the local disk, so that no document is tokenized twice on a machine.
// It is a cache: its files may be deleted at any time, a write never delays its caller, and damaged data is a miss.
// docs/reference/token-store.md describes the files.
//
// Several processes may share a folder. Each appends to separate segments and reads those of the others.
package tokenstore
