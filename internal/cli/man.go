package cli

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"loaderd/internal/build"
	"loaderd/internal/manual"
)

func newManCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "man FOLDER",
		Short: "Write the manual pages of all commands to a folder",
		Long: `Write a manual page for every command to a folder, which is created if it does
not exist. The pages have the date of SOURCE_DATE_EPOCH (in seconds) if it is
set, else today's.`,
		Example: `  loaderd man ~/.local/share/man/man1
  man loaderd-publish`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			day := time.Now().UTC()
			if s, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
				day = time.Unix(s, 0).UTC()
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			return manual.Man(args[0], cmd.Root(), build.This().Version, day)
		},
	}
}
