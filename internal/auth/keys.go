package auth

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const (
	keyBytes = 32
	maxKeys  = 16
)

// ReadKeys reads a file of keys of 32 bytes, one per line in hexadecimal digits. The first key is for new data. Blank
// lines and lines that start with # are ignored.
func ReadKeys(name string) (keys [][]byte, err error) {
	b, err := readSecret(name)
	if err != nil {
		return nil, fmt.Errorf("read plan keys: %w", err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := hex.DecodeString(line)
		if err != nil || len(key) != keyBytes { // the error omits the text, which may be a key nevertheless
			return nil, fmt.Errorf(
				"read plan keys: %s:%d: want a key of %d hexadecimal digits, as from openssl rand -hex %d", name, n,
				2*keyBytes, keyBytes)
		}
		keys = append(keys, key)
	}
	switch {
	case len(keys) == 0:
		err = errors.New("it contains no key")
	case len(keys) > maxKeys:
		err = fmt.Errorf("it contains %d keys, more than %d", len(keys), maxKeys)
	}
	if err != nil {
		return nil, fmt.Errorf("read plan keys: %s: %w", name, err)
	}
	return keys, nil
}
