package follower

import (
	"strings"
	"testing"

	"loaderd/loader/runconfig"
)

func TestFormatDivisors_ShortensLongLists(t *testing.T) {
	for n, want := range map[int]string{1: "1", 12: "1 2 3 4 6 12", 16: "1 2 4 8 16", 17: "1 17"} {
		if got := formatDivisors(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
	if got := formatDivisors(720720); !strings.Contains(got, " ... ") || len(strings.Fields(got)) != 33 {
		t.Errorf("720720: got %s", got)
	}
}

func TestCheckWorldSize_ListsValidSizes(t *testing.T) {
	c := runconfig.Config{Steps: runconfig.Steps{Rows: 64, Table: []int{48, 24, 12, 6, 3}}}
	c.Packing.Buckets = []int{1024, 2048, 4096, 8192, 16384}
	for world, want := range map[int]string{1: "", 3: "", 2: "world sizes: 1 3;", 6: "[48 24 12 6 3] by its bucket"} {
		err := CheckWorldSize(c, world)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("world %d: %v, want %q", world, err, want)
		}
	}
	c.Steps = runconfig.Steps{Tokens: 1 << 20}
	if err := CheckWorldSize(c, 64); err != nil {
		t.Error(err)
	}
	if err := CheckWorldSize(c, 128); err == nil {
		t.Error("64 rows of 16,384 tokens were shared by 128 ranks")
	}
}
