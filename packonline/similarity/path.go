package similarity

import (
	"hash/fnv"
	"path"
)

// maxFolders is the maximum number of folders of a path that are used, the nearest ones.
const maxFolders = 15

// PathHashes returns the hashes of a path, of its folder, of that folder's parent, and so on. Documents of one file,
// one folder or neighbouring folders share a part of them. It returns nil for an empty path.
func PathHashes(name string) []uint64 {
	var out []uint64
	for name = path.Clean("/" + name); name != "/" && len(out) <= maxFolders; name = path.Dir(name) {
		h := fnv.New64a()
		h.Write([]byte(name))
		out = append(out, h.Sum64())
	}
	return out
}
