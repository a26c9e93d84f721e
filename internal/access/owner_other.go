//go:build !unix

package access

import "io/fs"

// ownedByUs says no: where files have no modes there is nothing to say about them.
func ownedByUs(fs.FileInfo) bool { return false }

// hasOwners says whether the modes of files say who may read them.
const hasOwners = false
