package build

import "testing"

// A source has the same version in every build: Go's version is converted to that of python/version.py.
func TestReleased_MatchesPythonVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3":                               "1.2.3",
		"v1.2.3+dirty":                         "1.2.3",
		"v1.2.3-rc1":                           "1.2.3-rc1",
		"(devel)":                              "(devel)",
		"v0.0.0-20261124065129-3a08314a9313":   "0.0.0.dev0+g3a08314a9",
		"v1.2.4-0.20261124065129-3a08314a9313": "1.2.4.dev0+g3a08314a9",
		"v1.2.4-0.20261124065129-3a08314a9313+dirty": "1.2.4.dev0+g3a08314a9",
		"v1.2.0-rc1.0.20261124065129-3a08314a9313":   "1.2.0.dev0+g3a08314a9",
	} {
		if got := released(version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}
