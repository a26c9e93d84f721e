package filter_test

import (
	"strings"
	"testing"

	"loaderd/loader/filter"
)

var meta = map[string]string{"lang": "string", "n": "int64", "quality": "float64"}

func compile(t testing.TB, expression string) *filter.Filter {
	t.Helper()
	f, err := filter.Compile(expression, meta)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFilter_Matches(t *testing.T) {
	a := &filter.Attributes{ID: "a-1", Path: "src/x.py", Bytes: 4000, Meta: []any{"en", int64(3), nil}}
	for expression, want := range map[string]bool{
		``:                                      true,
		`tokens >= 64`:                          true,
		`tokens > 1000`:                         false,
		`meta.lang == "en" && bytes < 5000`:     true,
		`meta.lang in ["de", "fr"]`:             false,
		`source == "web" && id.startsWith("a")`: true,
		`path.matches("[.]py$")`:                true,
		`double(bytes) / double(tokens) < 4.5`:  true,
		`meta.n % 2 == 1`:                       true,
		`meta.n > 2.5`:                          true,
		// missing values are unknown, as NULL in SQL
		`meta.quality > 0.5`:                            false,
		`!(meta.quality > 0.5)`:                         false,
		`meta.quality == meta.quality`:                  false,
		`meta.quality > 0.5 || tokens > 10`:             true,
		`!(meta.quality > 0.5 && tokens < 10)`:          true,
		`has(meta.quality)`:                             false,
		`!has(meta.quality) || meta.quality > 0.5`:      true,
		`has(meta.quality) ? meta.quality > 0.5 : true`: true,
		// and so are results that do not exist
		`bytes / (tokens - 1000) > 0`:          false,
		`tokens + 9223372036854775807 > 0`:     false,
		`tokens / 0 == 1 || meta.lang == "en"`: true,
	} {
		if got := compile(t, expression).Matches(a, "web", 1000); got != want {
			t.Errorf("%s is %v, want %v", expression, got, want)
		}
	}
	if f := compile(t, `id == "" && path == "" && bytes == 0 && !has(meta.lang)`); !f.Matches(nil, "", 0) {
		t.Error("a document without attributes has some")
	}
}

func TestCompile_Errors(t *testing.T) {
	deep := strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200)
	for expression, want := range map[string]string{
		`tokens > 1 && tokns < 5`:          `column 15 ("tokns < 5"): unknown name tokns: documents have id, path, source, bytes`,
		`meta.language == "en"`:            `column 5 (".language == \"en\""): unknown value meta.language: declare it in documents.meta, which has lang, n`,
		`tokens == "5"`:                    `column 8 ("== \"5\""): found no matching overload for '_==_' applied to '(int, string)'`,
		`tokens`:                           `the expression is of type int: want true or false`,
		`tokens >`:                         `column 9 (""): Syntax error`,
		`id.matches("(")`:                  `column 12 ("\"(\")")`,
		"true &&\nid.matches(path)":        `line 2, column 12 ("path)")`,
		`(meta.n > 1 ? meta : meta).n > 1`: `want a value of meta by its name`,
		`has((true ? meta : meta).n)`:      `want a value of meta by its name`,
		`id.matches(path)`:                 `want a regular expression in quotes`,
		`id.matches("(a{33}){30}")`:        `the regular expression is too large`,
		`[1, 2].all(x, x > 0)`:             `column 11`,
		`now() > 5`:                        `unknown name now`,
		`timestamp(id) == timestamp(path)`: `unknown name timestamp`,
		`meta == meta`:                     `filters compare texts, numbers and truth values only`,
		`id in {"a": true}`:                `found no matching overload for '@in'`,
		"tokens > 1 &&\n  nothing":         `line 2, column 3 ("nothing")`,
		deep:                               `column`,
		strings.Repeat(" ", 5000):          `the expression has 5000 bytes, at most 4096 are possible`,
		`id + path == "a"`:                 `found no matching overload for '_+_'`,
	} {
		f, err := filter.Compile(expression, meta)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error is %v, want %q", expression, err, want)
		}
		if f != nil {
			t.Errorf("%.60s: compiled", expression)
		}
	}
	if _, err := filter.Compile(`meta.lang == "en"`, nil); err == nil || !strings.Contains(err.Error(), "which is empty") {
		t.Errorf("error without documents.meta is %v", err)
	}
}

func BenchmarkFilter(b *testing.B) {
	a := &filter.Attributes{ID: "a-1", Path: "src/x.py", Bytes: 4000, Meta: []any{"en", int64(3), 0.75}}
	for name, expression := range map[string]string{
		"tokens":  `tokens >= 64`,
		"meta":    `tokens >= 64 && meta.lang == "en" && meta.quality > 0.5`,
		"in":      `meta.lang in ["de", "en", "fr"] || path.endsWith(".py")`,
		"matches": `path.matches("[.](py|go)$")`,
		"gap":     `path.matches("^src/.*[.]py$")`,
		"regexp":  `path.matches("^[a-z]+/[a-z]+[.]py$")`,
	} {
		b.Run(name, func(b *testing.B) {
			f := compile(b, expression)
			for i := range b.N {
				if f.Matches(a, "web", 64+i) != true {
					b.Fatal("it does not match")
				}
			}
		})
	}
}
