package auth_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/internal/auth"
)

func TestPlanKeys_FileFormatAndMode(t *testing.T) {
	one, two := strings.Repeat("a1", 32), strings.Repeat("B2", 32)
	file := filepath.Join(t.TempDir(), "plan.key")
	for _, tt := range []struct {
		name, content string
		mode          os.FileMode
		keys          int
		wrong         string
	}{
		{"one", one + "\n", 0o600, 1, ""},
		{"two, and words", "# since May\n" + two + "\n\n  " + one, 0o400, 2, ""},
		{"none", "# later\n", 0o600, 0, "contains no key"},
		{"a short one", one + "\n" + one[1:], 0o600, 0, "plan.key:2: want a key of 64"},
		{"no digits", strings.Repeat("xy", 32), 0o600, 0, "plan.key:1: want a key of 64"},
		{"many", strings.Repeat(one+"\n", 17), 0o600, 0, "contains 17 keys"},
		{"one that others read", one, 0o644, 0, "chmod 600"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_ = os.Remove(file)
			if err := os.WriteFile(file, []byte(tt.content), tt.mode); err != nil {
				t.Fatal(err)
			}
			keys, err := auth.ReadKeys(file)
			if len(keys) != tt.keys || (err == nil) != (tt.wrong == "") || err != nil &&
				!strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%d keys, %v", len(keys), err)
			}
			if err != nil && strings.Contains(err.Error(), one[1:9]) {
				t.Errorf("the error tells the key: %v", err)
			}
		})
	}
}
