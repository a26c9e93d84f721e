package corpus_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/internal/corpus"
)

// link creates symbolic links below a folder.
func link(tb testing.TB, dir string, links map[string]string) {
	tb.Helper()
	for name, target := range links {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			tb.Fatal(err)
		}
	}
}

// Snapshots of the Hugging Face cache consist of links, which are read under their own names. No other link of a
// folder is read.
func TestHubCache_Snapshots(t *testing.T) {
	const table = "text,n\n\"one, 1\",1\n"
	dir := folder(t, map[string]string{
		"datasets--a--b/blobs/0a": table, "datasets--a--b/blobs/0b": `{"text":"two"}` + "\n",
		"datasets--a--b/refs/main": "rev",
		"other/secret.txt":         "secret", "datasets--a--b/snapshots/rev/plain.txt": "plain",
	})
	link(t, filepath.Join(dir, "datasets--a--b/snapshots/rev"), map[string]string{
		"t.csv": "../../blobs/0a", "data/train.jsonl": "../../../blobs/0b", "out.txt": "../../../other/secret.txt",
		"dir": "../../blobs", "gone.txt": "../../blobs/none",
		"loop": "../rev", "refs.txt": "../../refs/main",
	})
	snapshot := filepath.Join(dir, "datasets--a--b/snapshots/rev")
	documents := []string{"plain.txt||plain", "data/train.jsonl||two", "t.csv||one, 1"}
	docs, skipped, err := read(t, []string{snapshot}, nil, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "documents", docs, documents)
	want(t, "left out", skipped, []string{"dir:0 special", "gone.txt:0 special", "loop:0 special", "out.txt:0 special",
		"refs.txt:0 special"})

	docs, _, err = read(t, []string{filepath.Join(snapshot, "t.csv")}, nil, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "one file", docs, []string{"t.csv||one, 1"})

	docs, _, err = read(t, []string{filepath.Join(dir, "datasets--a--b")}, nil, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "the repository", docs, []string{"snapshots/rev/plain.txt||plain", "snapshots/rev/data/train.jsonl||two",
		"snapshots/rev/t.csv||one, 1"})

	link(t, filepath.Join(dir, "datasets--a--b/snapshots/other"), map[string]string{"t.csv": "../../blobs/0a"})
	if _, _, err = read(t, []string{dir}, nil, corpus.Options{}); err == nil ||
		!strings.Contains(err.Error(), "2 snapshots") {
		t.Errorf("two snapshots: %v", err)
	}
}
