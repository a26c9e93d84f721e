package related

import (
	"hash/fnv"
	"path"
)

// maxFolders bounds the folders of a path that count, the nearest ones.
const maxFolders = 15

// Path returns the hashes of a path, of its folder, of that one's folder, and so on: documents of one file, of one
// folder, of neighbouring folders share a part of them. nil for an empty path.
func Path(name string) []uint64 {
	var out []uint64
	for name = path.Clean("/" + name); name != "/" && len(out) <= maxFolders; name = path.Dir(name) {
		h := fnv.New64a()
		h.Write([]byte(name))
		out = append(out, h.Sum64())
	}
	return out
}
