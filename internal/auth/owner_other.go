//go:build !unix

package auth

import "io/fs"

// ownedByUs returns false, because files have no modes on this system.
func ownedByUs(fs.FileInfo) bool { return false }

// hasOwners reports whether file modes control which users may read a file.
const hasOwners = false
