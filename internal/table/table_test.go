package table_test

import (
	"strings"
	"testing"

	"loaderd/internal/table"
)

func TestTable_AlignsNumbersRightAndEndsLinesWithoutBlanks(t *testing.T) {
	x := table.New("NAME", "STEPS", "SIZE", "STATE")
	x.Row("a", "1,024", "3.2 GiB", "open")
	x.Row("with-a-name", "-", "7 B", "")
	for noHeader, want := range map[bool]string{
		false: "NAME         STEPS     SIZE  STATE\na            1,024  3.2 GiB  open\nwith-a-name      -      7 B\n",
		true:  "a            1,024  3.2 GiB  open\nwith-a-name      -      7 B\n",
	} {
		var b strings.Builder
		x.NoHeader = noHeader
		if err := x.Write(&b); err != nil || b.String() != want {
			t.Errorf("%v:\n%s, want\n%s", err, &b, want)
		}
	}
}
