package command_test

import (
	"strings"
	"testing"

	"loaderd/internal/cli/command"
)

func TestTable_AlignsNumbersRightAndEndsLinesWithoutBlanks(t *testing.T) {
	table := command.NewTable("NAME", "STEPS", "SIZE", "STATE")
	table.Row("a", "1,024", "3.2 GiB", "open")
	table.Row("with-a-name", "-", "7 B", "")
	for noHeader, want := range map[bool]string{
		false: "NAME         STEPS     SIZE  STATE\na            1,024  3.2 GiB  open\nwith-a-name      -      7 B\n",
		true:  "a            1,024  3.2 GiB  open\nwith-a-name      -      7 B\n",
	} {
		var b strings.Builder
		table.NoHeader = noHeader
		if err := table.Write(&b); err != nil || b.String() != want {
			t.Errorf("%v:\n%s, want\n%s", err, &b, want)
		}
	}
}
