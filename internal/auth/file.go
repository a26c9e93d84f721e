package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// identityFile is the content of a file of identities.
type identityFile struct {
	Format     int        `json:"format"`
	Identities []Identity `json:"identities"`
}

const (
	fileFormat   = 1
	maxFileBytes = 4 << 20
)

// ErrNoIdentity reports that a file has no identity of a name.
var ErrNoIdentity = errors.New("no such identity")

// Parse parses a file of identities. Names, tokens and certificates are unique in it.
func Parse(b []byte) ([]Identity, error) {
	var f identityFile
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data follows the JSON object")
	}
	if f.Format != fileFormat {
		return nil, fmt.Errorf("format %d: want %d; another version of loaderd wrote it", f.Format, fileFormat)
	}
	if len(f.Identities) > maxIdentities {
		return nil, fmt.Errorf("%d identities: want at most %d", len(f.Identities), maxIdentities)
	}
	taken := map[string]string{}
	for at, i := range f.Identities {
		if err := i.validate(); err != nil {
			return nil, fmt.Errorf("identity %d (%.*q): %w", at+1, maxName, i.Name, err)
		}
		for key, value := range map[string]string{"name": i.Name, "sha256": i.SHA256, "certificate": i.Certificate} {
			if value == "" {
				continue
			}
			if other, ok := taken[key+value]; ok {
				return nil, fmt.Errorf("identity %d (%s): identity %s has the same %s", at+1, i.Name, other, key)
			}
			taken[key+value] = i.Name
		}
	}
	return f.Identities, nil
}

// ReadFile reads a file of identities, which only its owner may read.
func ReadFile(name string) ([]Identity, error) {
	b, err := readSecret(name)
	if err != nil {
		return nil, fmt.Errorf("read identities: %w", err)
	}
	identities, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("read identities: %s: %w", name, err)
	}
	return identities, nil
}

// NewToken returns a new bearer token and the hash that a file stores of it.
func NewToken() (token, hash string) {
	var b [32]byte
	rand.Read(b[:]) //nolint:errcheck // it never returns one
	token = "loaderd_" + base64.RawURLEncoding.EncodeToString(b[:])
	return token, hashToken(token)
}

func hashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Add adds an identity to a file, and creates the file if it does not exist.
func Add(name string, i Identity) error {
	return updateFile(name, func(all []Identity) ([]Identity, error) { return append(all, i), nil })
}

// Remove removes an identity from a file.
func Remove(name, who string) error {
	return updateFile(name, func(all []Identity) ([]Identity, error) {
		rest := slices.DeleteFunc(slices.Clone(all), func(i Identity) bool { return i.Name == who })
		if len(rest) == len(all) {
			return nil, fmt.Errorf("%w: %s has no identity named %s", ErrNoIdentity, name, who)
		}
		return rest, nil
	})
}

// updateFile replaces a file atomically, so that a daemon reads either the old or the new one. Concurrent changes
// exclude each other.
func updateFile(name string, edit func([]Identity) ([]Identity, error)) (err error) {
	// The new file is the lock: a command that finds it fails immediately.
	next, err := os.OpenFile(name+".new", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf(
			"%s exists: another command is changing the identities; if no command is running, remove that file", name+".new")
	}
	if err != nil {
		return fmt.Errorf("write identities: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, next.Close(), os.Remove(next.Name()))
		}
	}()
	identities, err := ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if identities, err = edit(identities); err != nil {
		return err
	}
	b, err := json.MarshalIndent(identityFile{fileFormat, identities}, "", "  ")
	if err != nil {
		return err
	}
	if _, err := Parse(b); err != nil {
		return fmt.Errorf("change %s: %w", name, err)
	}
	if _, err := next.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("write identities: %w", err)
	}
	if err := next.Sync(); err != nil {
		return fmt.Errorf("write identities: %w", err)
	}
	if err := os.Rename(next.Name(), name); err != nil {
		return fmt.Errorf("write identities: %w", err)
	}
	return errors.Join(next.Close(), syncFolder(filepath.Dir(name)))
}

func syncFolder(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
