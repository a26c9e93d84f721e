package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
)

// The help of every command fits a terminal of 80 columns, and its summary has at most 60 characters.
func TestHelp_FitsTheTerminal(t *testing.T) {
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if len(c.Short) > 60 {
			t.Errorf("%s: the summary has %d characters: %s", c.CommandPath(), len(c.Short), c.Short)
		}
		var help bytes.Buffer
		c.SetOut(&help)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(help.String()) {
			if line = strings.TrimRight(line, "\n"); len([]rune(line)) > command.HelpColumns {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), len([]rune(line)), line)
			}
		}
		for _, sub := range c.Commands() {
			if c.Name() != "completion" { // Cobra's texts
				check(sub)
			}
		}
	}
	check(NewRootCmd())
}

func TestGroup_NamesItsCommands(t *testing.T) {
	var out, stderr bytes.Buffer
	code := Run(t.Context(), []string{"run", "bogus"}, nil, &out, &stderr)
	want := `loaderd run has no command "bogus": want audit, delete, export, fork, list, repair, show`
	if code != command.ExitUsage || !strings.Contains(stderr.String(), want) {
		t.Errorf("exit %d, %s; want %d and %s", code, &stderr, command.ExitUsage, want)
	}
}

func TestMan_WritesAPageOfEachCommand(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	folder := filepath.Join(t.TempDir(), "man1")
	var out, stderr bytes.Buffer
	if code := Run(t.Context(), []string{"man", folder}, nil, &out, &stderr); code != command.ExitOK {
		t.Fatalf("exit %d: %s", code, &stderr)
	}
	page, err := os.ReadFile(filepath.Join(folder, "loaderd-run-fork.1"))
	if err != nil || !strings.Contains(string(page), `"Jan 1970"`) {
		t.Errorf("the page is %.200s, %v", page, err)
	}
}
