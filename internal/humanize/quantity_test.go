package humanize_test

import (
	"testing"

	"loaderd/internal/humanize"
)

func TestHumanize_Formats(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999: "999", 999.6: "1.00k", 1234: "1.23k", 12_345: "12.3k",
		99_960: "100k", 999_999: "1.00M",
		4.56e9: "4.56G"} {
		if got := humanize.Short(v); got != want {
			t.Errorf("Short(%v) = %s, want %s", v, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234",
		-123: "-123"} {
		if got := humanize.Count(n); got != want {
			t.Errorf("Count(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 5_678_901: "5.4 MiB",
		1 << 62: "4.0 EiB"} {
		if got := humanize.Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 steps", 1: "1 step", 2000: "2,000 steps", -3: "-3 steps"} {
		if got := humanize.Things(n, "step"); got != want {
			t.Errorf("Things(%d) = %s, want %s", n, got, want)
		}
	}
	for _, c := range []struct {
		numbers []int
		want    string
	}{{nil, "no"}, {[]int{2048}, "2,048"}, {[]int{16384, 1024, 2048}, "1,024 to 16,384"}, {[]int{5, 5}, "5"}} {
		if got := humanize.Range(c.numbers); got != c.want {
			t.Errorf("Range(%v) = %s, want %s", c.numbers, got, c.want)
		}
	}
}
