package webmodules

import (
	"cmp"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

var (
	importLine = regexp.MustCompile(`(?m)^import (\{ \w+(?:, \w+)* \}) from "\./([\w-]+\.js)";$`)
	exportWord = regexp.MustCompile(`(?m)^export (?:async )?(?:function|class|const|let) (\w+)`)
	moduleWord = regexp.MustCompile(`(?m)^(import|export)\b.*$`)
)

// Bundle joins a module and all modules that it imports into one script without imports. Modules are searched in
// folder, then in Files. Each becomes a function that returns the exports of the module.
func Bundle(folder fs.FS, entry string) (string, error) {
	var b strings.Builder
	b.WriteString("const modules = {};\n")
	if err := bundle(&b, folder, entry, map[string]bool{}); err != nil {
		return "", fmt.Errorf("bundle modules: %w", err)
	}
	return b.String(), nil
}

// bundle writes the modules that a module imports, then the module. done has the written modules; false marks one
// whose imports are being written.
func bundle(b *strings.Builder, folder fs.FS, name string, done map[string]bool) error {
	if written, started := done[name]; written {
		return nil
	} else if started {
		return fmt.Errorf("%s imports itself", name)
	}
	done[name] = false
	source, err := fs.ReadFile(folder, name)
	if err != nil {
		if source, err = Files.ReadFile(name); err != nil {
			return err
		}
	}
	for _, m := range importLine.FindAllSubmatch(source, -1) {
		if err := bundle(b, folder, string(m[2]), done); err != nil {
			return err
		}
	}
	var exports []string
	for _, m := range exportWord.FindAllSubmatch(source, -1) {
		exports = append(exports, string(m[1]))
	}
	slices.SortFunc(exports, cmp.Compare)
	text := importLine.ReplaceAllString(string(source), `const $1 = modules["$2"];`)
	text = exportWord.ReplaceAllStringFunc(text, func(s string) string { return strings.TrimPrefix(s, "export ") })
	if left := moduleWord.FindString(text); left != "" {
		return fmt.Errorf("%s: cannot bundle %q", name, left)
	}
	fmt.Fprintf(b, "modules[%q] = (() => {\n%sreturn { %s };\n})();\n", name, text, strings.Join(exports, ", "))
	done[name] = true
	return nil
}
