package auth

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"loaderd/internal/event"
)

// Reloader is data that was read from files that may change.
type Reloader interface {
	Files() []string
	// Reload reads them again. After an error the previous data remains valid.
	Reload() error
	// Expires returns when the first part of the data expires; zero means never.
	Expires() time.Time
}

const (
	pollInterval = 2 * time.Second
	// expiryWarningTime is how long before expiry a warning is logged, once per day.
	expiryWarningTime = 14 * 24 * time.Hour
	warnInterval      = 24 * time.Hour
)

// WatchFiles reloads files whenever they change and whenever again has a value, until ctx is done. It logs warnings
// about data that expires soon.
func WatchFiles(ctx context.Context, log *slog.Logger, again <-chan struct{}, all map[string]Reloader) {
	seen, warned := map[string]string{}, map[string]time.Time{}
	for what, r := range all {
		seen[what] = fileStamps(r.Files())
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		for what, r := range all {
			if at := r.Expires(); !at.IsZero() && time.Until(at) < expiryWarningTime && time.Since(warned[what]) > warnInterval {
				warned[what] = time.Now()
				log.Warn("credentials expire soon; replace the file, and it is reloaded", event.CredentialsExpiring, "what",
					what, "expires",
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
			now := fileStamps(r.Files())
			if len(r.Files()) == 0 || !asked && now == seen[what] {
				continue
			}
			seen[what] = now
			if err := r.Reload(); err != nil {
				log.Error("cannot reload credentials; the previous ones stay in use", event.CredentialsReloadFailed, "what", what,
					"error", err)
				continue
			}
			log.Info("reloaded credentials", event.CredentialsReloaded, "what", what, "files", r.Files())
		}
	}
}

// fileStamps returns a string that changes when one of the files is written or replaced.
func fileStamps(files []string) string {
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
