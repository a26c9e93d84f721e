// Package follow finds files that appear in folders while the program runs.
package follow

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
)

// Follower finds files that match patterns, each when it is complete: its size and time have not changed for a while.
// The caller passes the time. It lists all names each time instead of using file system events, which mounted network
// file systems do not have.
type Follower struct {
	patterns []string
	settle   time.Duration
	versions map[string]fileVersion
}

// fileVersion is a version of a file.
type fileVersion struct {
	size       int64
	time       time.Time
	since      time.Time // when this version was first seen
	isReturned bool      // returned as complete
}

// New follows patterns: paths with * and ** in them, folders (all files below them) and names of files. A file is
// complete when it has not changed for settle. 0 accepts each file immediately, for writers that rename complete
// files into place.
func New(patterns []string, settle time.Duration) (*Follower, error) {
	f := &Follower{settle: settle, versions: map[string]fileVersion{}}
	for _, p := range patterns {
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, fmt.Errorf("follow %s: %w", p, err)
		}
		if info, err := os.Stat(abs); err == nil && info.IsDir() {
			abs = filepath.Join(escapePattern(abs), "**")
		}
		if !doublestar.ValidatePathPattern(abs) {
			return nil, fmt.Errorf(
				"follow %s: not a pattern: want * for a part of a name, ** for folders, [abc] and {a,b} closed", p)
		}
		base, _ := doublestar.SplitPattern(filepath.ToSlash(abs))
		if info, err := os.Stat(base); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("follow %s: folder %s does not exist: create it first", p, base)
		}
		f.patterns = append(f.patterns, abs)
	}
	return f, nil
}

// escapePattern returns a pattern that matches only the path itself.
func escapePattern(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, "{", `\{`, "}", `\}`).Replace(path)
}

// Patterns returns the followed patterns, absolute.
func (f *Follower) Patterns() []string { return f.patterns }

// Poll returns the absolute paths of the files that have become complete, in order, and the number of files that may
// still be written. A file that changes after it was returned is returned again when it is complete again. Files that
// disappear are removed from the record. An error changes nothing: call Look again.
func (f *Follower) Poll(now time.Time) (whole []string, unsettled int, err error) {
	there := map[string]fileVersion{}
	for _, p := range f.patterns {
		base, _ := doublestar.SplitPattern(filepath.ToSlash(p))
		names, err := doublestar.FilepathGlob(p, doublestar.WithFilesOnly(), doublestar.WithFailOnIOErrors())
		if err != nil {
			return nil, 0, fmt.Errorf("look for files %s: %w", p, err)
		}
		for _, name := range names {
			if _, known := there[name]; known || isIgnored(base, name) {
				continue
			}
			info, err := os.Stat(name)
			switch {
			case errors.Is(err, fs.ErrNotExist): // renamed or removed in the meantime
				continue
			case err != nil:
				return nil, 0, fmt.Errorf("look at %s: %w", name, err)
			case !info.Mode().IsRegular():
				continue
			}
			s := fileVersion{size: info.Size(), time: info.ModTime(), since: now}
			if before, ok := f.versions[name]; ok && before.size == s.size && before.time.Equal(s.time) {
				s = before
			}
			there[name] = s
		}
	}
	for name, s := range there {
		switch {
		case s.isReturned:
			continue
		case now.Sub(s.since) < f.settle:
			unsettled++
			continue
		}
		s.isReturned = true
		there[name] = s
		whole = append(whole, name)
	}
	f.versions = there
	slices.Sort(whole)
	return whole, unsettled, nil
}

// isIgnored reports whether a name is by convention not a file to read: hidden, in a hidden folder, or still being
// written.
func isIgnored(base, name string) bool {
	for _, ending := range []string{".tmp", ".part", ".partial", ".crdownload"} {
		if strings.HasSuffix(name, ending) {
			return true
		}
	}
	rel, err := filepath.Rel(base, name)
	if err != nil {
		rel = filepath.Base(name)
	}
	for element := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
		if strings.HasPrefix(element, ".") {
			return true
		}
	}
	return false
}
