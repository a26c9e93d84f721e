package filter

import (
	"reflect"
	"regexp"
	"regexp/syntax"
	"testing"

	"pgregory.net/rapid"
)

// drawPattern draws a regular expression of a few letters. Many have literals.
func drawPattern(t *rapid.T, depth int) string {
	kinds := []string{"text", "text", "class", "anchor"}
	if depth > 0 {
		kinds = append(kinds, "concat", "concat", "alternate", "repeat", "gap")
	}
	sub := func() string { return drawPattern(t, depth-1) }
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "concat":
		return sub() + sub()
	case "alternate":
		return "(" + sub() + "|" + sub() + ")"
	case "repeat":
		return "(?:" + sub() + ")" + rapid.SampledFrom([]string{"?", "*", "+", "{2}", "{1,2}", "*?"}).Draw(t, "repeat")
	case "gap":
		return "^" + sub() + rapid.SampledFrom([]string{".*", ".+", "(?s:.)*"}).Draw(t, "gap") + sub() + "$"
	case "class":
		return rapid.SampledFrom([]string{"[ab]", "[^a]", ".", "(?i:a)", "(?i:k)", `[\x{fffc}-\x{fffe}]`, `\w`, `\pL`}).Draw(t, "class")
	case "anchor":
		return rapid.SampledFrom([]string{"^", "$", `\b`, `\B`, "(?m:^)", "(?m:$)", `\z`, ""}).Draw(t, "anchor")
	}
	return rapid.StringMatching("[abké]{1,2}").Draw(t, "text")
}

func drawText(t *rapid.T) string {
	parts := []string{"a", "b", "A", "k", "\u212a", "é", "\n", "\xff", "\xc3", "\ufffd", ""}
	text := ""
	for _, part := range rapid.SliceOfN(rapid.SampledFrom(parts), 0, 6).Draw(t, "parts") {
		text += part
	}
	return text
}

// checkPattern compares the matcher of a regular expression with package regexp.
func checkPattern(t interface{ Fatalf(string, ...any) }, pattern, text string) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return
	}
	want := re.MatchString(text)
	if got := matcher(parsed, program, re)(text); got != want {
		t.Fatalf("%q in %q: %v, package regexp returns %v", pattern, text, got, want)
	}
	if a := newAutomaton(program); a != nil && a.matches(text) != want {
		t.Fatalf("%q in %q: the automaton returns %v, package regexp %v", pattern, text, !want, want)
	}
}

// An automaton has bounded size, also for expressions whose automata are exponentially large.
func TestAutomaton_Bounds(t *testing.T) {
	for pattern, want := range map[string]bool{
		`^[a-z]+/[a-z]+/[0-9]+[.]py$`: true, `\bid\b`: true, `(?i)[k\x{212a}]+s`: true, `\p{Greek}\PL`: true, `(?m)^\s+$`: true,
		`(a|b)*a(a|b){12}`: false, `a.{20}b.{20}c`: false, `[^a]a{900}`: false, `[\pL\pN]{900}`: false,
	} {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		b := automatonBuilder{program: program, states: map[string]uint16{}, visited: make([]int, len(program.Inst))}
		if got := b.classify() && b.build() != nil; got != want {
			t.Errorf("%s has an automaton: %v, want %v", pattern, got, want)
		}
		if most := maxSteps + maxClasses*len(program.Inst); b.steps > most {
			t.Errorf("%s takes %d steps, want at most %d", pattern, b.steps, most)
		}
	}
}

func TestMatcher_EqualsRegexp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := drawPattern(t, 3)
		for range 8 {
			checkPattern(t, pattern, drawText(t))
		}
	})
}

func FuzzMatcher(f *testing.F) {
	for _, x := range [][2]string{{"^src/.*[.](py|go)$", "src/a.py"}, {"(^|/)test_?s?/", "a/tests/b"},
		{"(?i)readme$", "ReadMe"}, {`^\s*$`, "\n"}, {"a|^b$|c+", "\xffb"}, {"[0-9]+/README", "1/README"},
		{"(?m)^a$", "b\na"}, {"x*?ab+$", "abb"}, {"^a.*b$", "a\nb"}, {"^a.+b$", "ab"}, {"^ab.*ba$", "aba"},
		{"^(?s:a.*b)$", "a\nb"}, {`\bé\B`, "aé b"}, {`(?im)^k.$`, "\n\u212a\xff"}, {`^\PL*\d$`, "é1"}, {"a$b", "xab"}, {"x^c", "xcd"}, {"^.*b", "a\nb"}} {
		f.Add(x[0], x[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) < 100 {
			checkPattern(t, pattern, text)
		}
	})
}

// The expressions that users write for paths have literals: filters do not search them with package regexp.
func TestLiteralsOf(t *testing.T) {
	for pattern, want := range map[string]literals{
		`[.](py|go)$`: {{".py", false, true}, {".go", false, true}},
		`.*[.]py$`:    {{".py", false, true}},
		`^docs/`:      {{"docs/", true, false}},
		`(^|/)tests?/`: {{"test/", true, false}, {"tests/", true, false}, {"/test/", false, false},
			{"/tests/", false, false}},
		`^README|COPY$`: {{"README", true, false}, {"COPY", false, true}},
		`^(en|de)$`:     {{"en", true, true}, {"de", true, true}},
		`a$b`:           nil,
	} {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := literalsOf(trimRepetitions(concatenated(parsed.Simplify())))
		less := map[literal]bool{}
		for _, l := range got {
			less[l] = true
		}
		wanted := map[literal]bool{}
		for _, l := range want {
			wanted[l] = true
		}
		if !ok || !reflect.DeepEqual(less, wanted) {
			t.Errorf("%s: %+v, want %+v", pattern, got, want)
		}
	}
	for _, pattern := range []string{`[a-z]+`, `\bid\b`, `(?m)^a`, "\ufffd", `[a-z]x`} {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := literalsOf(concatenated(parsed)); ok {
			t.Errorf("%s: %+v, want none", pattern, got)
		}
	}
}
