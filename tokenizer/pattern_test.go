package tokenizer

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/pattern"
)

// splitAll cuts a text as an encoder does.
func splitAll(sp *splitter, text []byte) (words []string) {
	var w wordBatch
	for i := 0; i < len(text); {
		n, _ := sp.Split(text, i, &w)
		for _, end := range w.ends[:n] {
			words = append(words, string(text[i:end]))
			i = int(end)
		}
	}
	return words
}

// compareSplits fails unless the block rule, the automatons and the definition cut a text at the same places.
func compareSplits(t *testing.T, label string, f *family, text []byte) {
	t.Helper()
	want := naiveWords(f.name, string(text))
	for form, sp := range map[string]*splitter{"rule": &f.splitter, "automatons": {stages: f.splitter.stages}} {
		got := splitAll(sp, text)
		for k := range max(len(got), len(want)) {
			if k >= len(got) || k >= len(want) || got[k] != want[k] {
				t.Fatalf("%s: %q: the %s cut at word %d: %q, want %q", label, text, form, k, got[min(k, len(got)):], want[min(k, len(want)):])
			}
		}
	}
}

func (p published) family() *family {
	var b splitBuilder
	for _, part := range p.parts {
		var err error
		if part == digitsPart {
			err = b.addDigits("Isolated")
		} else {
			err = b.addRegex(part, "Isolated", false)
		}
		if err != nil {
			panic(err)
		}
	}
	return b.family()
}

// familyOf cuts at the matches of a pattern.
func familyOf(t *testing.T, regex string) *family {
	t.Helper()
	var b splitBuilder
	if err := b.addRegex(regex, "Isolated", false); err != nil {
		t.Fatal(err)
	}
	return b.family()
}

func TestPatterns(t *testing.T) {
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
		if got := splitAll(&f.splitter, []byte(c.text)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q is cut into %q, want %q", c.pattern, c.text, got, c.want)
		}
	}
}

// kinds are characters that patterns tell apart, some with one, two, three and four bytes.
var kinds = strings.Split("a|A|s|'|l|(| | |\n|\r|\t|/|1|\x00|б|Б|é|ǅ|ʰ|ا|中|カ|\u0301|\u0903|\u0488|ſ|€|“|×|\u00a0|\u3000|\u2028|٣|²|👩|\u200d|𝒜|𐐨", "|")

func TestSplittersAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, p := range families {
		f := p.family()
		if f.splitter.rule == nil {
			t.Fatalf("%s has no rule", p.label)
		}
		for range 400 {
			compareSplits(t, p.label, f, randomText(r))
		}
		for range 2_000 { // characters of every kind beside one another, so that blocks end everywhere among them
			narrow := slices.Clone(kinds)
			r.Shuffle(len(narrow), func(i, j int) { narrow[i], narrow[j] = narrow[j], narrow[i] })
			narrow = narrow[:2+r.IntN(len(narrow)-1)]
			var text []byte
			for range r.IntN(120) {
				text = append(text, narrow[r.IntN(len(narrow))]...)
			}
			compareSplits(t, p.label, f, text)
		}
	}
}

func FuzzSplit(f *testing.F) {
	var all []*family
	for _, p := range families {
		all = append(all, p.family())
	}
	f.Add([]byte("It's  12345\n\n //x\r\n/HTTPServer'LL  中文 \u00a0"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 2000 {
			return // the definition tries every way
		}
		for k, family := range all {
			compareSplits(t, families[k].label, family, norm.AppendValid(nil, text))
		}
	})
}

func TestTrailingSpaceAgreesWithItsPattern(t *testing.T) {
	f := familyOf(t, trailingPattern)
	r := rand.New(rand.NewPCG(9, 10))
	for _, text := range []string{" ", "a ", " a", "a \n", "a\n", "\n", "\n\n", " \n a\n\n ", "a\n \n b \t\nc  "} {
		compareSplits(t, "trailing space", f, []byte(text))
	}
	for range 3_000 {
		compareSplits(t, "trailing space", f, randomText(r))
	}
}

// A time that grows with the square of the text would not end here.
func TestLongRunsAreCutInOnePass(t *testing.T) {
	for _, p := range families {
		f := p.family()
		for _, unit := range []string{"a", " ", "\n", "1", "'", ".", "中", "é", "\u0301", "\x00", " \n", "a1", "aA", "...\n/"} {
			text := bytes.Repeat([]byte(unit), 1<<19/len(unit))
			words := splitAll(&f.splitter, text)
			if got := strings.Join(words, ""); got != string(text) {
				t.Errorf("%s: %q is not cut into all of itself", p.label, unit)
			}
		}
	}
}

// Of the patterns of a fuzzer few can be read; those must match what the definition says.
func FuzzPattern(f *testing.F) {
	for _, p := range families {
		for _, part := range p.parts {
			f.Add(part, "It's  12345\n\n //x\r\n/HTTPServer'LL  中文 \u00a0")
		}
	}
	for _, part := range []string{`a?b*?c+(?!\S)|[^a-c]{1,3}`, `a+?b??c?|.{2,3}`, `(?:ab|a)(?:c|bcd)|.`, `\s?\p{L}+|[\w-]$`, `(?i:'[sk])?x|[^x]`, `[a-z&&[^b]]++|\W`} {
		f.Add(part, "abcd abab-'S'ſ'K'Kx  \n")
	}
	f.Fuzz(func(t *testing.T, part, text string) {
		if len(part) > 400 || len(text) > 80 {
			return
		}
		e, err := pattern.Parse(part)
		if err != nil {
			return
		}
		p, err := pattern.Compile(e)
		if err != nil {
			return
		}
		text = string(norm.AppendValid(nil, []byte(text)))
		var b backtracker
		want := b.cut(e, text)
		if b.steps > maxSteps {
			return
		}
		sp := splitter{stages: stages{{pattern: p}}}
		if got := splitAll(&sp, []byte(text)); !slices.Equal(got, want) {
			t.Fatalf("%s: %q is cut into %q, want %q", part, text, got, want)
		}
		if p.Total() && !b.covers(e, text) {
			t.Fatalf("%s: %q has places where nothing matches", part, text)
		}
	})
}

func BenchmarkSplit(b *testing.B) {
	wide := strings.Repeat("Съешь же ещё этих мягких французских булок, да выпей чаю. 我能吞下玻璃而不伤身体。나는 유리를 먹을 수 있어요. ", 20000)
	texts := map[string][]byte{"source": norm.AppendValid(nil, bytes.Join(sourceText(b), nil)), "wide": []byte(wide)}
	for _, p := range families {
		f := p.family()
		for kind, text := range texts {
			for form, sp := range map[string]*splitter{"rule": &f.splitter, "automatons": {stages: f.splitter.stages}} {
				b.Run(p.label+"/"+kind+"/"+form, func(b *testing.B) {
					var w wordBatch
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
