package record

import (
	"strings"
	"testing"
)

func TestMachine_WarnsOfLoad(t *testing.T) {
	for _, x := range []struct {
		load  string
		cores int
		want  string
	}{
		{"13.87", 2, "a load of 13.87 on 2 cores"},
		{"1.01", 2, "a load of 1.01 on 2 cores"},
		{"1.00", 2, ""},
		{"1.01", 4, ""},
		{"unknown", 2, ""},
		{"", 2, ""},
	} {
		var out strings.Builder
		Machine{Load: x.load, Cores: x.cores}.warn(&out)
		if have := out.String(); !strings.Contains(have, x.want) || (have == "") != (x.want == "") {
			t.Errorf("a load of %q on %d cores: %q, want %q", x.load, x.cores, have, x.want)
		}
	}
}
