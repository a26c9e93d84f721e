package tokenizer

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"loaderd/tokenizer/internal/fingerprint"
	"loaderd/tokenizer/internal/tokentest"
)

// The stored fingerprints of built-in tokenizers match the computed ones.
func TestFingerprint_StoredMatchesComputed(t *testing.T) {
	for _, name := range Builtin() {
		d := tokentest.Builtin(t, name)
		if want := d.Identity.Fingerprint(fingerprint.Settings{Added: d.Added}); d.Fingerprint != want {
			t.Errorf("%s: %s is written down, want %s", name, d.Fingerprint, want)
		}
	}
}

// Lazily created parts are created once under concurrent use: by encoders that meet a long word at the same time, and
// by callers of Fingerprint.
func TestModel_LazyPartsAreCreatedOnce(t *testing.T) {
	f := smallFile(tokentest.ABC...)
	m := mustLoadFile(t, f, Options{})
	text := []byte(strings.Repeat("abcab", 40))
	want := mustLoadFile(t, f, Options{}).NewEncoder().Encode(nil, text)
	var wg sync.WaitGroup
	sums := make([]string, 8)
	for k := range sums {
		wg.Go(func() {
			if got := m.NewEncoder().Encode(nil, text); !slices.Equal(got, want) {
				t.Errorf("ids %v, want %v", got, want)
			}
			sums[k] = m.Fingerprint()
		})
	}
	wg.Wait()
	if slices.Sort(sums); sums[0] != sums[len(sums)-1] {
		t.Errorf("fingerprints %q of one tokenizer", sums)
	}
}
