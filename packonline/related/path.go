package related

import (
	"hash/fnv"
	"strings"
)

// maxFolders bounds the folders of a path that count, the nearest ones.
const maxFolders = 15

// Path returns the hashes of a path, of its folder, of that one's folder, and so on: documents of one file, of one folder, of
// neighbouring folders share a part of them. nil for an empty path.
func Path(path string) []uint64 {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	var out []uint64
	for len(out) <= maxFolders {
		h := fnv.New64a()
		h.Write([]byte(path))
		out = append(out, h.Sum64())
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			break
		}
		path = strings.TrimRight(path[:i], "/")
	}
	return out
}
