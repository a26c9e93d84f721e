package publishcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"loaderd/internal/corpus/follow"
	"loaderd/internal/objects"
	"loaderd/internal/publishing"
)

// followFlags are the flags for publishing files as they appear.
type followFlags struct {
	on     bool
	settle time.Duration
	every  time.Duration
	until  string
}

func (f *followFlags) register(fl *pflag.FlagSet) {
	fl.BoolVar(&f.on, "follow", false,
		"until SIGTERM, also publish files that appear; PATHs are folders, or patterns (* and **) in quotes")
	fl.DurationVar(&f.settle, "follow-settle", 5*time.Second,
		"time for which a file must be unchanged; 0 if complete files are renamed into place")
	fl.DurationVar(&f.every, "follow-every", time.Second, "interval between searches for files")
	fl.StringVar(&f.until, "follow-until", "", "end after this file exists and everything before it is published")
}

// check reports errors of the flags.
func (f *followFlags) check(changed func(string) bool, paths []string, dryRun bool) error {
	if !f.on {
		for _, name := range []string{"follow-settle", "follow-every", "follow-until"} {
			if changed(name) {
				return fmt.Errorf("--%s needs --follow", name)
			}
		}
		return nil
	}
	switch {
	case changed("interleave"):
		return errors.New("--interleave needs all files at the start: remove --follow")
	case dryRun:
		return errors.New("--dry-run reads only existing files: remove --follow")
	case f.settle < 0:
		return fmt.Errorf("--follow-settle %v: want 0 or longer", f.settle)
	case f.every <= 0:
		return fmt.Errorf("--follow-every %v: want more than 0", f.every)
	}
	for _, path := range paths {
		if path == "-" || objects.IsRemote(path) {
			return fmt.Errorf("--follow needs local files, not %s", path)
		}
	}
	return nil
}

// follow publishes files as they appear at paths.
func (f *publishFlags) follow(
	ctx context.Context, p *publishing.Session, files *follow.Follower, warn func(string),
) (publishing.Summary, error) {
	return p.Follow(ctx, publishing.FollowOptions{Files: files, Interval: f.following.every, StopFile: f.following.until,
		Corpus: f.corpus, Warn: warn})
}
