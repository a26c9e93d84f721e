package norm

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

func TestSteps_Examples(t *testing.T) {
	replace := func(from, to string) Step { return Step{Form: "Replace", From: []byte(from), To: []byte(to)} }
	prepend := Step{Form: "Prepend", To: []byte("> ")}
	for _, c := range []struct {
		name  string
		steps []Step
		texts map[string]string
	}{
		{"none", nil, map[string]string{"": "", "a": "a"}},
		{"prepend", []Step{prepend}, map[string]string{"": "", "a": "> a"}},
		{"replace", []Step{replace("aa", "b")}, map[string]string{"": "", "x": "x", "aaa": "ba", "aaaaxaa": "bbxb"}},
		{"remove, then prepend", []Step{replace("a", ""), prepend}, map[string]string{"aa": "", "aba": "> b"}},
		{"twice", []Step{replace("a", "ab"), replace("b", "a")}, map[string]string{"ab": "aaa"}},
		{"NFC", []Step{{Form: "NFC"}}, map[string]string{"e\u0301": "é", "ﬁ": "ﬁ"}},
		{"NFC, replace, NFC", []Step{{Form: "NFC"}, replace("é", "e\u0301\u0301"), {Form: "NFC"}},
			map[string]string{"e\u0301x": "é\u0301x", "x": "x"}},
		{"NFKC", []Step{{Form: "NFKC"}}, map[string]string{
			"":                    "",
			"plain é":             "plain é",
			"ﬁ①ｶ\uff9e²":          "fi1ガ2",
			"\u00a0\u3000":        "  ",
			"\ufdfa":              "صلى الله عليه وسلم",
			"ſ\u0323\u0307":       "ṩ",
			"x\u00a8\u0301":       "x \u0308\u0301",
			"\u1100\uffc2\u11a8x": "각x",
		}},
	} {
		for text, want := range c.texts {
			p := NewStepper(c.steps)
			for range 2 {
				if got := string(p.Normalize([]byte(text))); got != want {
					t.Errorf("%s: %+q becomes %+q, want %+q", c.name, text, got, want)
				}
			}
		}
	}
}

func FuzzSteps(f *testing.F) {
	f.Add([]byte("ﬁ a\u0323\u0301 하\u11ab \u0958 ①\u0344"), []byte("a"), []byte("ab"))
	f.Fuzz(func(t *testing.T, text, from, to []byte) {
		text, from, to = AppendValid(nil, text), AppendValid(nil, from), AppendValid(nil, to)
		form := NewStepper([]Step{{Form: "NFKC"}})
		once := bytes.Clone(form.Normalize(text))
		if !utf8.Valid(once) || !bytes.Equal(form.Normalize(once), once) {
			t.Fatalf("%+q becomes %+q, then %+q", text, once, form.Normalize(once))
		}
		if len(from) == 0 {
			return
		}
		replace := NewStepper([]Step{{Form: "Replace", From: from, To: to}})
		if got, want := replace.Normalize(text), bytes.ReplaceAll(text, from, to); !bytes.Equal(got, want) {
			t.Fatalf("%q with %q for %q is %q, want %q", text, to, from, got, want)
		}
	})
}
