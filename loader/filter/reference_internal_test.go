package filter

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var testMeta = map[string]string{"lang": "string", "n": "int64", "q": "float64"}

// reference evaluates an expression with CEL's interpreter.
func reference(t interface{ Fatal(args ...any) }, expression string, a *Attributes, source string, tokens int) bool {
	e, err := newEnv(testMeta)
	if err != nil {
		t.Fatal(err)
	}
	checked, issues := e.Compile(expression)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	p, err := e.Program(checked)
	if err != nil {
		t.Fatal(err)
	}
	meta := map[string]any{}
	for i, name := range slices.Sorted(maps.Keys(testMeta)) {
		if a.Meta != nil && a.Meta[i] != nil {
			meta[name] = a.Meta[i]
		}
	}
	v, _, err := p.Eval(map[string]any{"id": a.ID, "path": a.Path, "source": source, "bytes": a.Bytes, "tokens": tokens,
		"meta": meta})
	return err == nil && v.Value() == true
}

// drawExpression draws an expression of a type.
func drawExpression(t *rapid.T, typ string, depth int) string {
	text := map[string][]string{
		"bool":   {"has(meta.lang)", "has(meta.n)", "has(meta.q)", "true", "false"},
		"int":    {"tokens", "bytes", "meta.n", "0", "1", "-1", "2", "9223372036854775807", "size(id)", "path.size()"},
		"double": {"meta.q", "0.0", "1.5", "-1.0", "1e300", "9223372036854775807.0"},
		"string": {"id", "path", "source", "meta.lang", `""`, `"en"`, `"de"`, `"é"`},
	}
	if depth == 0 {
		return rapid.SampledFrom(text[typ]).Draw(t, typ)
	}
	of := func(typ string) string {
		return "(" + drawExpression(t, typ, rapid.IntRange(0, depth-1).Draw(t, "depth")) + ")"
	}
	op := func(name string, ops ...string) string { return rapid.SampledFrom(ops).Draw(t, name) }
	any1 := func() string { return op("operand", "int", "double", "string") }
	if rapid.IntRange(0, 3).Draw(t, "conditional") == 0 {
		return of("bool") + "?" + of(typ) + ":" + of(typ)
	}
	switch typ {
	case "int":
		if op("negate", "no", "yes") == "yes" {
			return "-" + of("int")
		}
		return of("int") + op("arithmetic", "+", "-", "*", "/", "%") + of("int")
	case "double":
		if op("convert", "no", "yes") == "yes" {
			return "double(" + of("int") + ")"
		}
		return of("double") + op("arithmetic", "+", "-", "*", "/") + of("double")
	case "string":
		return of("string")
	}
	switch op("kind", "junction", "not", "compare", "mixed", "equal", "in", "text", "matches") {
	case "junction":
		return of("bool") + op("junction", "&&", "||") + of("bool") + op("junction", "&&", "||") + of("bool")
	case "not":
		return "!" + of("bool")
	case "compare":
		typ := any1()
		return of(typ) + op("compare", "<", "<=", ">", ">=") + of(typ)
	case "mixed":
		return of(op("left", "int", "double")) + op("compare", "<", "<=", ">", ">=") + of(op("right", "int", "double"))
	case "equal":
		typ := any1()
		return of(typ) + op("equal", "==", "!=") + of(typ)
	case "in":
		typ := any1()
		return of(typ) + " in [" + of(typ) + "," + drawExpression(t, typ, 0) + "]"
	case "text":
		return of("string") + "." + op("text", "contains", "startsWith", "endsWith") + of("string")
	}
	return of("string") + op("pattern", `.matches("^[a-e]+$")`, `.matches("")`, `.matches(".n")`)
}

func drawAttributes(t *rapid.T) *Attributes {
	texts := rapid.SampledFrom([]string{"", "en", "de", "é", "x/y.py"})
	a := &Attributes{ID: texts.Draw(t, "id"), Path: texts.Draw(t, "path"), Bytes: rapid.Int().Draw(t, "bytes")}
	if rapid.Bool().Draw(t, "meta") {
		a.Meta = make([]any, 3)
		if rapid.Bool().Draw(t, "has lang") {
			a.Meta[0] = texts.Draw(t, "lang")
		}
		if rapid.Bool().Draw(t, "has n") {
			a.Meta[1] = rapid.Int64().Draw(t, "n")
		}
		if rapid.Bool().Draw(t, "has q") {
			a.Meta[2] = rapid.Float64().Draw(t, "q")
		}
	}
	return a
}

func TestFilter_EqualsCEL(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		expression := drawExpression(t, "bool", 4)
		f, err := Compile(expression, testMeta)
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		for range 4 {
			a, tokens := drawAttributes(t), rapid.Int().Draw(t, "tokens")
			source := rapid.SampledFrom([]string{"web", "en"}).Draw(t, "source")
			if got, want := f.Matches(a, source, tokens), reference(t, expression, a, source, tokens); got != want {
				t.Fatalf("%s: is %v for %+v of %s with %d tokens, want %v", expression, got, *a, source, tokens, want)
			}
		}
	})
}

// FuzzCompile checks that an expression fails with an error only, that its result is CEL's, and that both take a
// bounded time.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		`tokens >= 64 && meta.lang == "en"`, `has(meta.q) ? meta.q > 1 : source in ["web", id]`, `((((`, `null == null`,
		`path.matches("(a+)+$") || size(id) % 3 == 1`, `[1].exists(x, x > 0)`, `meta.lang in {"a": 1}`,
		`id.matches("((a{50}){50}){50}")`, `!(bytes / 0 == 1) || meta == meta`, `"\u0000" < path`,
		`-9223372036854775808 < bytes`, `timestamp("2020-01-01T00:00:00Z").getHours("Europe/Berlin") > 1`, `type(id) == string`, `1u < 2u`, `b"a" == b"b"`,
	} {
		f.Add(s, "en", int64(3), 2.5)
	}
	f.Fuzz(func(t *testing.T, expression, text string, n int64, q float64) {
		start := time.Now()
		x, err := Compile(expression, testMeta)
		if err != nil || x == nil {
			return
		}
		a := &Attributes{ID: text, Path: text, Bytes: int(n), Meta: []any{text, nil, q}}
		got := x.Matches(a, "web", int(n))
		if took := time.Since(start); took > 10*time.Second {
			t.Fatalf("%q took %s", expression, took)
		}
		if want := reference(t, expression, a, "web", int(n)); got != want {
			t.Fatalf("%q is %v for %+v, CEL's result is %v", expression, got, *a, want)
		}
	})
}
