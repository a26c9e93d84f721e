package server

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats-server/v2/server"

	"loaderd/internal/auth"
)

// completeChecksums writes missing checksums of stream settings. The server writes the settings atomically, then their
// checksum. If it is killed in between, every later start ignores the stream and all its messages. A stream that is
// created in its place gets no checksum either, and is lost at the next start. Settings that are newer than their
// checksum are from such a kill. Any other mismatch is damage, which the server reports.
func completeChecksums(dir string, log *slog.Logger) error {
	found, err := fs.Glob(os.DirFS(dir), path.Join(server.JetStreamStoreDir, "*", "streams", "*",
		server.JetStreamMetaFile))
	if err != nil {
		return err
	}
	for _, settings := range found {
		settings = filepath.Join(dir, filepath.FromSlash(settings))
		completed, err := completeChecksum(settings)
		if err != nil {
			return fmt.Errorf("complete the settings of a stream: %w", err)
		}
		if completed {
			log.Warn("wrote the missing checksum of a stream's settings: the server was killed while it wrote them", "stream",
				filepath.Base(filepath.Dir(settings)))
		}
	}
	return nil
}

// completeChecksum writes the checksum of settings that have none, or an older one.
func completeChecksum(settings string) (completed bool, err error) {
	folder := filepath.Dir(settings)
	stream, sum := filepath.Base(folder), filepath.Join(folder, server.JetStreamMetaFileSum)
	written, err := os.Stat(settings)
	if err != nil {
		return false, err
	}
	switch there, err := os.Stat(sum); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, err
	case !there.ModTime().Before(written.ModTime()):
		return false, nil
	}
	content, err := os.ReadFile(settings)
	if err != nil {
		return false, err
	}
	var says struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(content, &says) != nil || says.Name != stream {
		return false, nil
	}
	want, err := settingsChecksum(stream, content)
	if err != nil {
		return false, err
	}
	if is, err := os.ReadFile(sum); err == nil && string(is) == want {
		return false, nil
	}
	return true, auth.WritePrivate(sum, []byte(want))
}

// settingsChecksum returns the checksum that the server computes.
func settingsChecksum(stream string, settings []byte) (string, error) {
	key := sha256.Sum256([]byte(stream))
	sum, err := highwayhash.New64(key[:])
	if err != nil {
		return "", err
	}
	_, _ = sum.Write(settings) // writes to a hash do not fail
	return hex.EncodeToString(sum.Sum(nil)), nil
}
