package cli

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"loaderd/internal/cli/command"
	"loaderd/internal/goldentest"
	"loaderd/internal/manual"
)

// The pages in docs/reference/commands equal the help texts of the commands; -update writes them.
func TestDocs_CommandPagesMatchHelp(t *testing.T) {
	const folder = "../../docs/reference/commands"
	root := NewRootCmd()
	root.InitDefaultCompletionCmd()
	pages := manual.Pages(root, command.FlagUsages)
	for name, text := range pages {
		goldentest.Compare(t, filepath.Join("..", folder, name), func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if pages[f.Name()] == nil {
			t.Errorf("%s/%s is not of a command", folder, f.Name())
		}
	}
}
