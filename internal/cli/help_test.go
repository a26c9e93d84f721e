package cli

import (
	"bytes"
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
			check(sub)
		}
	}
	check(NewRootCmd())
}
