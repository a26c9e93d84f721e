package access

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

// KeptToken is a token that a daemon keeps in a file of its data folder, which only its owner may read.
type KeptToken struct {
	File   string
	Prefix string // of a token that is made
	// Secret is that of the members of a cluster: each derives the same token from it. Empty: tokens are made at random.
	Secret string
}

// FlightTokenFile is the file of a data folder with the token for calls to a daemon's Flight and HTTP servers.
const FlightTokenFile = "flight.token"

// FlightToken is that of a data folder. secret is that of the members of a cluster, or empty.
func FlightToken(dir, secret string) KeptToken {
	return KeptToken{File: filepath.Join(dir, FlightTokenFile), Prefix: "flight_", Secret: secret}
}

// Read returns the token in the file. It writes the file where it is absent, or where it must have the token of a
// cluster.
func (k KeptToken) Read() (string, error) {
	token, err := k.read()
	if k.Secret != "" {
		want := k.Prefix + Derived(k.Secret, filepath.Base(k.File))
		if err == nil && token == want {
			return token, nil
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return want, WritePrivate(k.File, []byte(want+"\n"))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		token = k.Prefix + Random()
		err = writePrivate(k.File, []byte(token+"\n"), placeNew)
		if errors.Is(err, fs.ErrExist) { // another daemon has made one
			token, err = k.read()
		}
	}
	if err != nil {
		return "", fmt.Errorf("%w; where the file is not there the daemon makes another token", err)
	}
	return token, nil
}

// read refuses a file of another user too, where others can read or change it: they chose the token.
func (k KeptToken) read() (string, error) {
	info, err := os.Stat(k.File)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	if mode := info.Mode().Perm(); hasOwners && mode&0o077 != 0 {
		return "", fmt.Errorf("read token: %w", openToOthers(k.File, mode))
	}
	return ReadToken(k.File)
}

// Random makes a secret.
func Random() string {
	var b [32]byte
	rand.Read(b[:]) //nolint:errcheck // it never returns one
	return hex.EncodeToString(b[:])
}

// Derived makes a secret for one purpose from another one.
func Derived(secret, purpose string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(purpose))
	return hex.EncodeToString(m.Sum(nil))
}

// placeNew gives a file a name that no other one has. Where the file system has no links it replaces the other one.
func placeNew(file, name string) error {
	if err := os.Link(file, name); err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Rename(file, name)
}

// WritePrivate writes a file whole or not at all, and on disk. Only its owner may read it.
func WritePrivate(name string, text []byte) error { return writePrivate(name, text, os.Rename) }

// writePrivate is WritePrivate; place gives the written file its name.
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
