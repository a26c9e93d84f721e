package objects

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// hubRef is a reference that the hub creates itself, to a data set's converted files or to a proposed change, and a
// path. Its slashes may be unescaped. In any other revision they are written %2F.
var hubRef = regexp.MustCompile(`^(refs/(?:convert/\w+|pr/\d+))(?:/(.*))?$`)

// parseHub parses what follows hf:// in the address of a data set: datasets/OWNER/NAME[@REVISION]/PATH. The bucket is
// the address without the path, and is the same for both spellings of a reference.
func parseHub(rest string) (bucket, path string, err error) {
	parts := strings.SplitN(rest, "/", 3)
	if len(parts) < 3 || parts[0] != "datasets" || parts[1] == "" {
		return "", "", errHubAddress
	}
	name, path, _ := strings.Cut(parts[2], "/")
	name, revision, at := strings.Cut(name, "@")
	if name == "" || strings.ContainsAny(parts[1]+name+revision, "*?[{") {
		return "", "", errHubAddress
	}
	bucket = "datasets/" + parts[1] + "/" + name
	if !at {
		return bucket, path, nil
	}
	plain, err := url.PathUnescape(revision)
	if err != nil {
		return "", "", errors.New("the revision has a % that is none of an escape: want %25 for it")
	}
	if ref := hubRef.FindStringSubmatch(plain + "/" + path); ref != nil {
		return bucket + "@" + ref[1], ref[2], nil
	}
	return bucket + "@" + revision, path, nil
}

var errHubAddress = errors.New("want hf://datasets/OWNER/NAME/PATH or hf://datasets/OWNER/NAME@REVISION/PATH")
