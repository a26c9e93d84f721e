package access

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"loaderd/internal/event"
)

// Reloader is what was read from files that may change.
type Reloader interface {
	Files() []string
	// Reload reads them again. After an error what stood before stands.
	Reload() error
	// Expires is when the first of what was read expires; zero: never.
	Expires() time.Time
}

const (
	lookEvery = 2 * time.Second
	// warnBefore is how long before it expires a warning is given, once a day.
	warnBefore = 14 * 24 * time.Hour
	warnEvery  = 24 * time.Hour
)

// Watch reads files again whenever they change and whenever again has a value, until ctx is done, and warns of what
// expires soon.
func Watch(ctx context.Context, log *slog.Logger, again <-chan struct{}, all map[string]Reloader) {
	seen, warned := map[string]string{}, map[string]time.Time{}
	for what, r := range all {
		seen[what] = stampsOf(r.Files())
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		for what, r := range all {
			if at := r.Expires(); !at.IsZero() && time.Until(at) < warnBefore && time.Since(warned[what]) > warnEvery {
				warned[what] = time.Now()
				log.Warn("expires soon: replace it, it is read again by itself", event.CredentialsExpiring, "what", what, "expires",
					at.UTC().Format(time.RFC3339))
			}
		}
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-again:
			asked = true
		}
		for what, r := range all {
			now := stampsOf(r.Files())
			if len(r.Files()) == 0 || !asked && now == seen[what] {
				continue
			}
			seen[what] = now
			if err := r.Reload(); err != nil {
				log.Error("cannot be read again: what was read before stands", event.CredentialsReloadFailed, "what", what,
					"error", err)
				continue
			}
			log.Info("read again", event.CredentialsReloaded, "what", what, "files", r.Files())
		}
	}
}

// stampsOf says of files what changes when one of them is written or replaced.
func stampsOf(files []string) string {
	var b strings.Builder
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			fmt.Fprintf(&b, "%v\n", err)
			continue
		}
		fmt.Fprintf(&b, "%s %d %s\n", info.ModTime(), info.Size(), info.Mode())
	}
	return b.String()
}
