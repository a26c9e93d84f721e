package runcmd

import (
	"bytes"
	"strings"
	"testing"
)

func TestAsk_AcceptsOnlyYes(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "Yes\n": true, "yes": true, "n\n": false, "\n": false,
		"": false, "yesterday\n": false} {
		var out bytes.Buffer
		if err := ask(strings.NewReader(answer), &out, "Delete it?"); (err == nil) != want ||
			out.String() != "Delete it? [y/N] " {
			t.Errorf("%q: %v, %q", answer, err, out.String())
		}
	}
}
