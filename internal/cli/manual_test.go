package cli

import (
	"io"
	"testing"

	"loaderd/internal/cli/command"
	"loaderd/internal/goldentest"
	"loaderd/internal/manual"
)

// docs/reference/commands.md equals the help texts of the commands; -update writes it.
func TestDocs_CommandsPageMatchesHelp(t *testing.T) {
	goldentest.Compare(t, "../../../docs/reference/commands.md", func(w io.Writer) error {
		root := NewRootCmd()
		root.InitDefaultCompletionCmd()
		return manual.Markdown(w, root, command.FlagUsages)
	})
}
