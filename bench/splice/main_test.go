package main

import (
	"slices"
	"testing"
)

func TestSizes_RefusesInvalidSizes(t *testing.T) {
	for _, text := range []string{"", "0", "4096,-1", "4096,0", "x", "1,,2"} {
		var s sizes
		if err := s.Set(text); err == nil {
			t.Errorf("%q is read as %d", text, s)
		}
	}
	var s sizes
	if err := s.Set("4096,16384"); err != nil || !slices.Equal(s, sizes{4096, 16384}) {
		t.Errorf("%d, %v", s, err)
	}
}
