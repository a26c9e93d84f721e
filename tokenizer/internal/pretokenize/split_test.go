package pretokenize_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/testscale"
	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/tokentest"
)

// compareSplits fails unless the block rule, the automatons and the definition split a text at the same places.
func compareSplits(t *testing.T, label string, f *pretokenize.Family, text []byte) {
	t.Helper()
	want := tokentest.NaiveWords(f.Name, string(text))
	for form, sp := range map[string]*pretokenize.Splitter{"rule": &f.Splitter, "automatons": f.Splitter.WithoutRule()} {
		got := tokentest.Words(sp, text)
		for k := range max(len(got), len(want)) {
			if k >= len(got) || k >= len(want) || got[k] != want[k] {
				t.Fatalf("%s: %q: the %s cut at word %d: %q, want %q", label, text, form, k, got[min(k, len(got)):],
					want[min(k, len(want)):])
			}
		}
	}
}

func familyFrom(p pretokenize.PublishedFamily) *pretokenize.Family {
	var b pretokenize.Builder
	for _, part := range p.Parts {
		var err error
		if part == pretokenize.DigitsPart {
			err = b.AddDigits("Isolated")
		} else {
			err = b.AddRegex(part, "Isolated", false)
		}
		if err != nil {
			panic(err)
		}
	}
	return b.Family()
}

// familyOf returns a family that splits at the matches of a pattern.
func familyOf(t *testing.T, regex string) *pretokenize.Family {
	t.Helper()
	var b pretokenize.Builder
	if err := b.AddRegex(regex, "Isolated", false); err != nil {
		t.Fatal(err)
	}
	return b.Family()
}

func TestSplitter_PatternExamples(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          []string
	}{
		{`a+?b??c?|.`, "aabc", []string{"a", "a", "b", "c"}},
		{`a|ab`, "ab", []string{"a", "b"}},
		{`ab|a`, "ab", []string{"ab"}},
		{`(?:a|ab)(?:c|bcd)`, "xabcd", []string{"x", "abcd"}},
		{`a{2,3}`, "aaaaaaa", []string{"aaa", "aaa", "a"}},
		{`\s+(?!\S)|\s+`, "a   b  ", []string{"a", "  ", " ", "b", "  "}},
		{`a(?=b)|b`, "aab", []string{"a", "a", "b"}},
		{`a$`, "aa\na", []string{"a", "a", "\n", "a"}},
		{`(?i:'s)`, "'S'ſ's", []string{"'S", "'ſ", "'s"}},
		{`(?i:'\x53)|(?i:'\u0074)`, "'s'ſ'S'T'T", []string{"'s", "'ſ", "'S", "'T", "'T"}},
		{`[\w]+`, "a²b", []string{"a", "²", "b"}},
		{`\w+`, "a²b", []string{"a²b"}},
		{`[a-z&&[^b]]+`, "abc", []string{"a", "b", "c"}},
		{`[^\n]++\n?`, "ab\nc", []string{"ab\n", "c"}},
	} {
		f := familyOf(t, c.pattern)
		if got := tokentest.Words(&f.Splitter, []byte(c.text)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q is cut into %q, want %q", c.pattern, c.text, got, c.want)
		}
	}
}

// kinds are characters that patterns distinguish, some with one, two, three and four bytes.
var kinds = strings.Split(
	"a|A|s|'|l|(| | |\n|\r|\t|/|1|\x00|\x05|\x1f|\x7f|б|Б|é|ǅ|ʰ|ا|中|カ|"+
		"\u0301|\u0903|\u0488|ſ|€|“|×|\u00a0|\u3000|\u2028|٣|²|👩|\u200d|𝒜|𐐨", "|")

func TestSplitter_RuleAgreesWithPattern(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	memory := tokentest.CopyToGuardPage(t, make([]byte, 4096))
	for _, p := range pretokenize.Families {
		f := familyFrom(p)
		if !f.Splitter.HasRule() {
			t.Fatalf("%s has no rule", p.Label)
		}
		for range testscale.Of(100, 400) {
			compareSplits(t, p.Label, f, tokentest.RandomText(r))
		}
		for range testscale.Of(500, 2_000) { // characters of all kinds in all orders: blocks end between any two kinds
			narrow := slices.Clone(kinds)
			r.Shuffle(len(narrow), func(i, j int) { narrow[i], narrow[j] = narrow[j], narrow[i] })
			narrow = narrow[:2+r.IntN(len(narrow)-1)]
			var text []byte
			for range r.IntN(120) {
				text = append(text, narrow[r.IntN(len(narrow))]...)
			}
			at := memory[len(memory)-len(text):]
			copy(at, text)
			compareSplits(t, p.Label, f, at)
		}
	}
}

func FuzzSplit(f *testing.F) {
	var all []*pretokenize.Family
	for _, p := range pretokenize.Families {
		all = append(all, familyFrom(p))
	}
	for k := range all {
		f.Add(uint8(k), []byte("It's  12345\n\n //x\r\n/HTTPServer'LL  中文 \u00a0"))
	}
	f.Fuzz(func(t *testing.T, of uint8, text []byte) { // a single family: all of them would take several times as long
		if len(text) > 200 {
			return // the definition tries every way
		}
		k := int(of) % len(all)
		compareSplits(t, pretokenize.Families[k].Label, all[k], norm.AppendValid(nil, text))
	})
}

func TestSplitter_TrailingSpaceAgreesWithPattern(t *testing.T) {
	f := familyOf(t, pretokenize.TrailingPattern)
	r := rand.New(rand.NewPCG(9, 10))
	for _, text := range []string{" ", "a ", " a", "a \n", "a\n", "\n", "\n\n", " \n a\n\n ", "a\n \n b \t\nc  "} {
		compareSplits(t, "trailing space", f, []byte(text))
	}
	for range testscale.Of(500, 3_000) {
		compareSplits(t, "trailing space", f, tokentest.RandomText(r))
	}
}

// Quadratic time would not finish here.
func TestSplitter_LongRunsTakeLinearTime(t *testing.T) {
	for _, p := range pretokenize.Families {
		f := familyFrom(p)
		for _, unit := range []string{"a", " ", "\n", "1", "'", ".", "中", "é", "\u0301", "\x00", " \n", "a1", "aA",
			"...\n/"} {
			text := bytes.Repeat([]byte(unit), testscale.Of(1<<18, 1<<19)/len(unit))
			words := tokentest.Words(&f.Splitter, text)
			if got := strings.Join(words, ""); got != string(text) {
				t.Errorf("%s: %q is not cut into all of itself", p.Label, unit)
			}
		}
	}
}

// A lookahead at groups reads a run of their characters once.
func TestSplitter_GroupsTakeLinearTime(t *testing.T) {
	for _, regex := range []string{`(?=(\d{3})+(?!\d))`, `\d{1,3}(?=(?:\d{3})*\b)`, `\B|x`, `\d{1,510}`} {
		f := familyOf(t, regex)
		for _, unit := range []string{"1", "1a", "٣", "12 ", "x"} {
			text := bytes.Repeat([]byte(unit), 1<<19/len(unit))
			if got := strings.Join(tokentest.Words(&f.Splitter, text), ""); got != string(text) {
				t.Errorf("%s: %q is not cut into all of itself", regex, unit)
			}
		}
	}
}

func BenchmarkSplit(b *testing.B) {
	wide := strings.Repeat("Съешь же ещё этих мягких французских булок, да выпей чаю. 我能吞下玻璃而不伤身体。나는 유리를 먹을 수 있어요. ",
		20000)
	texts := map[string][]byte{"source": norm.AppendValid(nil, bytes.Join(tokentest.SourceText(b), nil)),
		"wide": []byte(wide)}
	for _, p := range pretokenize.Families {
		f := familyFrom(p)
		for kind, text := range texts {
			for form, sp := range map[string]*pretokenize.Splitter{"rule": &f.Splitter, "automatons": f.Splitter.WithoutRule()} {
				b.Run(p.Label+"/"+kind+"/"+form, func(b *testing.B) {
					var w pretokenize.Batch
					b.SetBytes(int64(len(text)))
					for b.Loop() {
						for i := 0; i < len(text); {
							_, i = sp.Split(text, i, &w)
						}
					}
				})
			}
		}
	}
}
