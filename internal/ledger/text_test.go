package ledger

import (
	"fmt"
	"strings"
	"testing"
)

func TestText_AbbreviatesToOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"a\n\"b\"":     `"a\n\"b\""`,
		"cut \xe4\xb8": `"cut ` + "\ufffd" + `"`,
		"\x1b[31m":     `"\x1b[31m"`,
	} {
		if got := (&Text{[]byte(text)}).abbreviate(); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
	long := (&Text{[]byte(strings.Repeat("x", 1000))}).abbreviate()
	if want := fmt.Sprintf("%q ... 880 more ... %q", strings.Repeat("x", 90), strings.Repeat("x", 30)); long != want {
		t.Errorf("a long text is shown as %s", long)
	}
}
