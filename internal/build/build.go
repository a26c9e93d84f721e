// Package build tells which build of the program this is, and which plans it can continue.
package build

import (
	"runtime"
	"runtime/debug"

	"loaderd/loader/plan"
)

// Build is what the program knows of itself.
type Build struct {
	Version       string `json:"version"`
	Revision      string `json:"revision,omitempty"` // of the source, as far as the build knew it
	Modified      bool   `json:"modified,omitempty"` // the source differed from the revision
	Go            string `json:"go"`
	Platform      string `json:"platform"`
	PlanFormat    int    `json:"plan_format"`
	PlanAlgorithm int    `json:"plan_algorithm"`
}

// release and revision are what a build was told of its source: -ldflags "-X loaderd/internal/build.release=1.2.3", as make build does.
var release, revision string

// This is the build that runs.
func This() Build {
	b := Build{
		Version: "(devel)", Revision: revision, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		PlanFormat: plan.FormatVersion, PlanAlgorithm: plan.AlgorithmVersion,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
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
