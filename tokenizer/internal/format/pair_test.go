package format

import (
	"strings"
	"testing"

	"loaderd/tokenizer/internal/merge"
)

// Both the plain and the general reader return the same merge.
func TestReadConfig_MergesInAnySpelling(t *testing.T) {
	for _, c := range []struct {
		spelled string
		plain   bool
		want    merge.Rule
	}{
		{`"a b"`, true, merge.Rule{Left: "a", Right: "b"}},
		{`" b"`, true, merge.Rule{Right: "b"}},
		{`"\u0061 b"`, false, merge.Rule{Left: "a", Right: "b"}},
		{`["a","b"]`, true, merge.Rule{Left: "a", Right: "b"}},
		{"[ \t\"a b\"\n, \"c\" ]", true, merge.Rule{Left: "a b", Right: "c"}},
		{`["\"", "]"]`, false, merge.Rule{Left: `"`, Right: "]"}},
		{`["中", ""]`, true, merge.Rule{Left: "中"}},
	} {
		if _, _, plain := plainPair([]byte(c.spelled)); plain != c.plain {
			t.Errorf("%s is plain: %t", c.spelled, plain)
		}
		config, err := ReadConfig(strings.NewReader(`{"model": {"merges": [` + c.spelled + `]}}`))
		if err != nil {
			t.Fatal(err)
		}
		if have := config.Model["merges"].([]merge.Rule); len(have) != 1 || have[0] != c.want {
			t.Errorf("%s is %v, want %v", c.spelled, have, c.want)
		}
	}
	for _, spelled := range []string{`"ab"`, `"a b c"`, `["a"]`, `["a", 1]`, `["a", "b", "c"]`, `[]`, `[1, "b"]`, `{}`,
		`1`, `null`} {
		if left, right, ok := plainPair([]byte(spelled)); ok {
			t.Errorf("%s is %q and %q", spelled, left, right)
		}
	}
}

// Stored texts do not change when others are added.
func TestStringArena_StoredTextsDoNotChange(t *testing.T) {
	var kept stringArena
	var have, want []string
	for i := range 300 {
		text := strings.Repeat(string(rune('a'+i%26)), i*i%1000*(1+i%7/6*100))
		have, want = append(have, kept.store([]byte(text))), append(want, text)
	}
	for i := range want {
		if have[i] != want[i] {
			t.Fatalf("text %d of %d bytes is another", i, len(want[i]))
		}
	}
}
