package follow_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"loaderd/internal/corpus/follow"
)

// The folder is checked once per second. Each case has the change before a check and the expected result.
func TestFollower_ReturnsCompleteFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	write := func(name, content string, second int) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path(name), time.Time{}, began.Add(time.Duration(second)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(path(from), path(to)); err != nil {
			t.Fatal(err)
		}
	}
	write("b/old.jsonl", "x", -100)
	f, err := follow.New([]string{dir, path("**/*.jsonl")}, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for second, c := range []struct {
		do        func()
		whole     []string
		unsettled int
	}{
		{func() {}, nil, 1}, // even an old file, because its time may have been set
		{func() {
			write("a.txt", "1", 1)
			write("b/.hidden", "1", 1)
			write(".h/x.txt", "1", 1)
			write("c.txt.tmp", "1", 1)
		}, nil, 2},
		{func() { write("a.txt", "12", 2) }, []string{"b/old.jsonl"}, 1},   // grows
		{func() { write("a.txt", "21", 3) }, nil, 1},                       // same size, other time
		{func() { move("c.txt.tmp", "c.txt") }, nil, 2},                    // renamed into place
		{func() { write("Z.txt", "1", 5) }, []string{"a.txt"}, 2},          // new file
		{func() { _ = os.Remove(path("Z.txt")) }, []string{"c.txt"}, 0},    // removed before it is complete
		{func() { write("a.txt", "", 7) }, nil, 1},                         // shrinks after it was read
		{func() { _ = os.Remove(path("b/old.jsonl")) }, nil, 1},            // removed after it was read
		{func() { write("b/old.jsonl", "x", -100) }, []string{"a.txt"}, 1}, // exists again
		{func() { write("y.txt", "1", 10); write("b/x.txt", "1", 10) }, nil, 3},
		{func() {}, []string{"b/old.jsonl"}, 2},
		{func() {}, []string{"b/x.txt", "y.txt"}, 0},
		{func() {}, nil, 0},
	} {
		c.do()
		whole, unsettled, err := f.Poll(began.Add(time.Duration(second) * time.Second))
		var names []string
		for _, name := range whole {
			rel, err := filepath.Rel(dir, name)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, filepath.ToSlash(rel))
		}
		if err != nil || unsettled != c.unsettled || !cmp.Equal(names, c.whole) {
			t.Errorf("second %d: %v are whole and %d unsettled (%v), want %v and %d", second, names, unsettled, err, c.whole,
				c.unsettled)
		}
	}
}

// With a settle time of 0, for writers that rename, a file is complete at the first check. Names of folders may
// contain pattern characters.
func TestFollower_SettleZeroReturnsFilesImmediately(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]{c}*")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x.txt"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := follow.New([]string{dir}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for look, want := range []int{1, 0} {
		if whole, unsettled, err := f.Poll(time.Now()); err != nil || len(whole) != want || unsettled != 0 {
			t.Errorf("look %d: %v, %d, %v", look, whole, unsettled, err)
		}
	}
}

func TestFollower_RefusesInvalidPatterns(t *testing.T) {
	dir := t.TempDir()
	for _, pattern := range []string{filepath.Join(dir, "nowhere", "*.txt"), filepath.Join(dir, "[a")} {
		if _, err := follow.New([]string{pattern}, 0); err == nil {
			t.Errorf("%s is followed", pattern)
		}
	}
}
