package objects_test

import (
	"strings"
	"testing"

	"loaderd/internal/objects"
	"loaderd/internal/objecttest"
)

// Revisions may contain slashes: the hub's own references in both spellings, which name the same objects, and
// branches.
func TestHub_RevisionsWithSlashes(t *testing.T) {
	hub := objecttest.NewHub(t)
	hub.Branches = []string{"refs/convert/parquet", "refs/pr/12", "my/branch", "50%off", "refs"}
	hub.Put("owner/set", "default/train/0000.parquet", []byte("content"))
	hub.Put("owner/set", "convert/other.parquet", []byte("content"))
	t.Setenv("HF_ENDPOINT", hub.URL)
	const file = "/default/train/0000.parquet"
	for pattern, want := range map[string]string{
		"@refs/convert/parquet/default/**":                  "@refs/convert/parquet" + file,
		"@refs%2Fconvert%2Fparquet/default/train/*.parquet": "@refs/convert/parquet" + file,
		"@refs/convert%2Fparquet/default":                   "", // neither spelling
		"@refs/convert/parquet" + file:                      "@refs/convert/parquet" + file,
		"@refs/pr/12/default/**":                            "@refs/pr/12" + file,
		"@refs%2Fpr%2F12" + file:                            "@refs/pr/12" + file,
		"@my%2Fbranch/default/":                             "@my%2Fbranch" + file,
		"@50%25off/default/":                                "@50%25off" + file,
		// A branch of this name, and a folder in it.
		"@refs/convert/*.parquet": "@refs/convert/other.parquet",
		"@my/branch/default/**":   "",
		"@refs/convert/none/**":   "",
	} {
		s := objects.New(objects.Options{RetryTimeout: patience})
		all, err := s.List(t.Context(), "hf://datasets/owner/set"+pattern)
		switch {
		case want == "":
			if !objects.IsKind(err, objects.NotFound) {
				t.Errorf("%s: %v, %v; want that it is missing", pattern, all, err)
			}
		case err != nil || len(all) != 1 || all[0].URL != "hf://datasets/owner/set"+want ||
			!strings.HasPrefix(all[0].Version, objecttest.BranchCommit):
			t.Errorf("%s: %v, %v; want %s", pattern, all, err, want)
		default:
			if data, err := readAll(t.Context(), s, all[0], 0); err != nil || string(data) != "content" {
				t.Errorf("%s: %q, %v", pattern, data, err)
			}
		}
	}
	for _, whole := range []string{"@refs/convert/parquet", "@refs%2Fconvert%2Fparquet/"} {
		if all := list(t, objects.New(objects.Options{}), "hf://datasets/owner/set"+whole); len(all) != 2 {
			t.Errorf("%s has %v", whole, all)
		}
	}
	if err := objects.ValidatePattern("hf://datasets/owner/set@50%off/x"); err == nil ||
		!strings.Contains(err.Error(), "%25") {
		t.Errorf("of half an escape: %v", err)
	}
}
