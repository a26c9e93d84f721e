package auth

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// CheckPrivate refuses a file of this user that other users can read or change, as ssh does for its keys. The owner of
// a file of another user is responsible for it, such as one that is mounted into a container.
func CheckPrivate(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && ownedByUs(info) {
		return notPrivateError(name, mode)
	}
	return nil
}

func notPrivateError(name string, mode fs.FileMode) error {
	return fmt.Errorf("%s is a secret that other users can read or change (mode %04o): chmod 600 %s", name, mode, name)
}

// readSecret reads a file that only its owner may read.
func readSecret(name string) ([]byte, error) {
	if err := CheckPrivate(name); err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(b) > maxFileBytes {
		err = fmt.Errorf("%s has more than %d bytes", name, maxFileBytes)
	}
	return b, err
}

// ReadToken reads a file with a bearer token.
func ReadToken(name string) (string, error) {
	b, err := readSecret(name)
	if err != nil {
		return "", fmt.Errorf("read bearer token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("read bearer token: %s is empty; write a token to it or remove token_file", name)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf(
			"read bearer token: %s contains blanks or characters not allowed in headers; use letters, digits and -._~+/=", name)
	}
	return token, nil
}
