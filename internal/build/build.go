// Package build describes the build of the program, and which plans it can continue.
package build

import (
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
)

// Build describes a build of the program.
type Build struct {
	Version       string `json:"version"`
	Revision      string `json:"revision,omitempty"` // of the source, if known to the build
	Modified      bool   `json:"modified,omitempty"` // the source differed from the revision
	Go            string `json:"go"`
	Platform      string `json:"platform"`
	PlanFormat    int    `json:"plan_format"`
	PlanAlgorithm int    `json:"plan_algorithm"`
}

// release and revision are set by the build: -ldflags "-X loaderd/internal/build.release=1.2.3", as in make build.
var release, revision string

// This returns the running build.
func This() Build {
	b := Build{
		Version: "(devel)", Revision: revision, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		PlanFormat: planrecord.FormatVersion, PlanAlgorithm: planner.AlgorithmVersion,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = released(info.Main.Version)
	}
	if release != "" {
		b.Version = release
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// between matches the version that Go gives a module between two tags: v1.2.4-0.20261124065129-1a2b3c4d5e6f.
var between = regexp.MustCompile(`^v(\d+\.\d+\.\d+)-(?:.*\.)?\d{14}-([0-9a-f]{9})[0-9a-f]{3}(?:\+dirty)?$`)

// released converts a version of Go to the format of python/version.py: without the v for a tag, and as a development
// version between tags. Its number of commits since the tag is 0, because Go does not provide it.
func released(version string) string {
	if m := between.FindStringSubmatch(version); m != nil {
		return m[1] + ".dev0+g" + m[2]
	}
	return strings.TrimSuffix(strings.TrimPrefix(version, "v"), "+dirty")
}
