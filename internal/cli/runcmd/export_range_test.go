package runcmd

import (
	"strings"
	"testing"

	"loaderd/internal/export"
)

func TestStepRange_Parses(t *testing.T) {
	for text, want := range map[string]export.Options{
		"": {FromOldest: true}, ":": {FromOldest: true}, "3:": {First: 3}, ":7": {FromOldest: true, End: 7}, "0:7": {End: 7},
		"3:4": {First: 3, End: 4},
	} {
		var got export.Options
		if err := stepRange(text, &got); err != nil || got.First != want.First || got.End != want.End ||
			got.FromOldest != want.FromOldest {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"3", "a:", ":b", "-1:", "4:4", "5:4", "1:2:3", ":0"} {
		if err := stepRange(text, &export.Options{}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
