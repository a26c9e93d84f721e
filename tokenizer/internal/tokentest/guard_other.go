//go:build !unix

package tokentest

import (
	"slices"
	"testing"
)

// AtGuard is a copy of text. Elsewhere a page that must not be read is behind it.
func AtGuard(_ testing.TB, text []byte) []byte { return slices.Clip(append([]byte(nil), text...)) }
