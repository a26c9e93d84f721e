package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"loaderd/internal/build"
	"loaderd/internal/cli/command"
)

// buildText formats a build for humans.
func buildText(b build.Build) string {
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
		Short: "Print the version of the program and of its plans",
		Long: `Print the version of the program and of the plans that it writes. A daemon
continues a plan only if the plan has the same format version and algorithm
version.`,
		Example: `  loaderd version
  loaderd version --json | jq .plan_algorithm`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := build.This()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(b)
			}
			_, err := io.WriteString(cmd.OutOrStdout(), buildText(b))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
