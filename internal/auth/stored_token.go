package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// StoredToken is a token that a daemon keeps in a file of its data folder, which only its owner may read.
type StoredToken struct {
	File   string
	Prefix string // of a created token
	// Secret is the secret of a cluster's members, which all derive the same token from it. If empty, tokens are random.
	Secret string
}

// FlightTokenFile is the file of a data folder with the token for calls to a daemon's Flight and HTTP servers.
const FlightTokenFile = "flight.token"

// FlightToken returns the token of a data folder. secret is the secret of a cluster's members, or empty.
func FlightToken(dir, secret string) StoredToken {
	return StoredToken{File: filepath.Join(dir, FlightTokenFile), Prefix: "flight_", Secret: secret}
}

// Read returns the token in the file. It writes the file if it does not exist, or if it must contain the token of a
// cluster.
func (k StoredToken) Read() (string, error) {
	token, err := k.read()
	if k.Secret != "" {
		want := k.Prefix + DeriveSecret(k.Secret, filepath.Base(k.File))
		if err == nil && token == want {
			return token, nil
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return want, WritePrivate(k.File, []byte(want+"\n"))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		token = k.Prefix + RandomSecret()
		err = writePrivate(k.File, []byte(token+"\n"), linkNew)
		if errors.Is(err, fs.ErrExist) { // another daemon has created one
			token, err = k.read()
		}
	}
	if err != nil {
		return "", fmt.Errorf("%w; if the file does not exist, the daemon creates another token", err)
	}
	return token, nil
}

// read refuses a file that other users can read or change, also if another user owns it: they would have chosen the
// token.
func (k StoredToken) read() (string, error) {
	info, err := os.Stat(k.File)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	if mode := info.Mode().Perm(); hasOwners && mode&0o077 != 0 {
		return "", fmt.Errorf("read token: %w", notPrivateError(k.File, mode))
	}
	return ReadToken(k.File)
}

// RandomSecret returns a new random secret.
func RandomSecret() string {
	var b [32]byte
	rand.Read(b[:]) //nolint:errcheck // it never returns one
	return hex.EncodeToString(b[:])
}

// DeriveSecret derives a secret for one purpose from another one.
func DeriveSecret(secret, purpose string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(purpose))
	return hex.EncodeToString(m.Sum(nil))
}

// linkNew links a file to a name that must not exist. If the file system does not support links, it replaces an
// existing file.
func linkNew(file, name string) error {
	if err := os.Link(file, name); err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Rename(file, name)
}

// WritePrivate writes a file atomically and syncs it to disk. Only its owner may read it.
func WritePrivate(name string, text []byte) error { return writePrivate(name, text, os.Rename) }

// writePrivate is WritePrivate; place moves the written file to its name.
func writePrivate(name string, text []byte, place func(file, name string) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", name, err)
		}
	}()
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // it is gone where it was renamed
	_, err = file.Write(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = place(file.Name(), name)
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(name))
}
