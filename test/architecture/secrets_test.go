package architecture_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// secretArguments match commands that pass a secret as an argument, which every user of a machine can read, and
// programs with a secret in their text.
var secretArguments = []*regexp.Regexp{
	regexp.MustCompile(`--(?:token|password|passphrase|secret)[ =]["']?[$A-Za-z0-9<]\S*`),
	regexp.MustCompile(`--from-literal=\S+`),
	regexp.MustCompile(`(?:-H|--header)[ =]["']?Authorization\S*`),
	regexp.MustCompile(`\w://[^\s/:@"'` + "`" + `]+:[^\s/@"'` + "`" + `]+@`),
	regexp.MustCompile(`\b(?:token|password)=["'][^"']+["']`),
}

// TestPages_ShowNoSecretAsArgument searches pages, examples and files for operators. The help texts of commands are
// in docs/reference/commands.
func TestPages_ShowNoSecretAsArgument(t *testing.T) {
	t.Chdir(root)
	for _, s := range shownSecrets(t, os.DirFS(".")) {
		t.Error(s)
	}
}

func TestPages_SecretArgumentsAreDetected(t *testing.T) {
	t.Chdir(root)
	got := shownSecrets(t, fstest.MapFS{
		"README.md": {
			Data: []byte(
				"loaderd seal --token s3cret\nloaderd seal --token-file me.token\nnats --password \"$(cat token)\" pub\n")},
		"deploy/a.md": {Data: []byte("curl -H \"Authorization: Bearer $TOKEN\" " +
			"url\nnats://producer:s3cret@host:4222\nnats://host:4222 user@example.org\n--tokenizer gpt2\n")},
		"examples/a.py": {
			Data: []byte("loaderd.Client(uri, token=\"s3cret\")\nloaderd.Client(uri, token=open(\"token\").read())\n")},
		"deploy/notes.txt": {Data: []byte("kubectl create secret generic a --from-literal=secret=x\n")},
		"docs/nats/a.sh":   {Data: []byte("nsc add import --token activation.jwt\n")}, // a file
		"loader/a_test.go": {Data: []byte("--token s3cret")},
	})
	want := []string{
		`README.md: --token s3cret`,
		`README.md: --password "$(cat`,
		`deploy/notes.txt: --from-literal=secret=x`,
		`deploy/a.md: -H "Authorization:`,
		`deploy/a.md: s://producer:s3cret@`,
		`examples/a.py: token="s3cret"`,
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// shownSecrets returns the places of secrets in pages, examples and files for operators, in order.
func shownSecrets(t *testing.T, root fs.FS) (shown []string) {
	t.Helper()
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		top, _, below := strings.Cut(file, "/")
		if !d.IsDir() && path.Ext(file) != ".md" &&
			!(below && slices.Contains([]string{"docs", "examples", "deploy"}, top)) || path.Ext(file) == ".go" {
			return nil
		}
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && file != "." || file == "bin" || d.Name() == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		for _, kind := range secretArguments {
			for _, found := range kind.FindAllString(string(text), -1) {
				if !strings.HasSuffix(found, ".jwt") { // a file
					shown = append(shown, fmt.Sprintf("%s: %s", file, found))
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(shown)
	return shown
}
