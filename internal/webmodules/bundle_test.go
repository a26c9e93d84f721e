package webmodules_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"loaderd/internal/webmodules"
)

func TestBundle_JoinsModules(t *testing.T) {
	script, err := webmodules.Bundle(fstest.MapFS{
		"main.js": {Data: []byte(`import { el } from "./dom.js";
import { b } from "./b.js";
b(el);
`)},
		"b.js": {Data: []byte(`import { el } from "./dom.js";
export function b() { return el; }
export const c = 1;
`)},
	}, "main.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"const { b } = modules[\"b.js\"];\nb(el);\nreturn {  };",
		"function b() { return el; }\nconst c = 1;\nreturn { b, c };",
	} {
		if !strings.Contains(script, want) {
			t.Errorf("%q is not in %s", want, script)
		}
	}
	if n := strings.Count(script, `modules["dom.js"] = `); n != 1 {
		t.Errorf("dom.js is there %d times", n)
	}
	if strings.Contains(script, "import ") || strings.Contains(script, "\nexport ") {
		t.Errorf("it imports or exports: %s", script)
	}
}

// All shared modules can be bundled, and can be written into a script element.
func TestBundle_SharedModules(t *testing.T) {
	names, err := fs.Glob(webmodules.Files, "*.js")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		script, err := webmodules.Bundle(fstest.MapFS{}, name)
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(script, "</script") || strings.Contains(script, "<!--") {
			t.Errorf("%s ends a script element", name)
		}
	}
}

func TestBundle_RefusesUnsupportedSyntax(t *testing.T) {
	for name, x := range map[string]struct{ source, want string }{
		"a default export":        {"export default 1;\n", `main.js: cannot bundle "export default 1;"`},
		"an import of all":        {"import * as dom from \"./dom.js\";\n", "main.js: cannot bundle"},
		"a renamed import":        {"import { el as e } from \"./dom.js\";\n", `main.js: cannot bundle`},
		"a list of exports":       {"const a = 1;\nexport { a };\n", `main.js: cannot bundle "export { a };"`},
		"an absent module":        {"import { a } from \"./absent.js\";\n", "absent.js: file does not exist"},
		"a circle":                {"import { a } from \"./main.js\";\n", "main.js imports itself"},
		"an import without names": {"import \"./dom.js\";\n", "main.js: cannot bundle"},
	} {
		_, err := webmodules.Bundle(fstest.MapFS{"main.js": {Data: []byte(x.source)}}, "main.js")
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: the error is %v, want %s", name, err, x.want)
		}
	}
}
