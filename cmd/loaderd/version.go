package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"loaderd/loader/plan"

	"github.com/spf13/cobra"
)

// build says what this binary is and which plans it can continue.
type build struct {
	Version       string `json:"version"`
	Revision      string `json:"revision,omitempty"` // of the source, as far as the build knew it
	Modified      bool   `json:"modified,omitempty"` // the source differed from the revision
	Go            string `json:"go"`
	Platform      string `json:"platform"`
	PlanFormat    int    `json:"plan_format"`
	PlanAlgorithm int    `json:"plan_algorithm"`
}

// version is that of a release, which its build sets: -ldflags "-X main.version=v1.2.3".
var version string

func thisBuild() build {
	b := build{
		Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		PlanFormat: plan.FormatVersion, PlanAlgorithm: plan.AlgorithmVersion,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	if version != "" {
		b.Version = version
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

// text is the build for people.
func (b build) text() string {
	revision := b.Revision
	switch {
	case revision == "":
		revision = "unknown"
	case b.Modified:
		revision += " (modified)"
	}
	return fmt.Sprintf("loaderd   %s\nrevision  %s\ngo        %s %s\nplan      format %d, algorithm %d\n",
		b.Version, revision, b.Go, b.Platform, b.PlanFormat, b.PlanAlgorithm)
}

func newVersionCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of the program and of the plans it writes",
		Long: `Print the version of the program and of the plans it writes. A daemon continues a plan only if the plan has the same format and
algorithm version.`,
		Example: `  loaderd version
  loaderd version --json | jq .plan_algorithm`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisBuild()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(b)
			}
			_, err := io.WriteString(cmd.OutOrStdout(), b.text())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
