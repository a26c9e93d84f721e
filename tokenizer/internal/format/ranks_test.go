package format

import (
	"slices"
	"strings"
	"testing"
)

// Ranks are returned in the order of the file, whatever its white space. Their hash depends on neither.
func TestReadRanks_KeepsOrderOfFile(t *testing.T) {
	read := func(file string) []Rank {
		list, err := ReadRanks(strings.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	list := read("YQ== 1\r\n\n  YWI=\t0  \n/w== 2")
	if want := []Rank{{"a", 1}, {"ab", 0}, {"\xff", 2}}; !slices.Equal(list, want) {
		t.Errorf("%v, want %v", list, want)
	}
	sum := SumRanks(list)
	if again := SumRanks(read("YWI= 0\n/w== 2\nYQ== 1\n")); again != sum {
		t.Error("another order has another hash")
	}
	for _, other := range []string{"YQ== 0\nYWI= 1\n/w== 2", "YQ== 1\nYWI= 0\n/w== 9", "YQ== 1\nYWI= 0",
		"Yg== 1\nYWI= 0\n/w== 2"} {
		if SumRanks(read(other)) == sum {
			t.Errorf("%q has the same hash", other)
		}
	}
}

func TestReadRanks_IsStrict(t *testing.T) {
	for file, says := range map[string]string{
		"YQ== 0\n\nYR== 1":         `line 3: "YR==" is no token`, // bits after the token
		"YQ== 0 1":                 "line 1: want a token in base64 and its rank, have 3 fields",
		"YQ== 0\nYWI= 99999999":    `line 2: rank "99999999"`,
		"YQ== 0\nYQ== 1":           `line 2: token "a" is that of line 1`,
		"YQ== 0\nYWI= 0":           "line 2: rank 0 is that of line 1",
		"\n \n":                    "no token",
		strings.Repeat("A", 1<<21): "line 1: longer",
	} {
		if _, err := ReadRanks(strings.NewReader(file)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q: error %v, want one that contains %s", file, err, says)
		}
	}
}
