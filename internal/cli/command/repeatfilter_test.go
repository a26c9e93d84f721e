package command

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestRepeatFilter_DropsEqualRecords(t *testing.T) {
	var out bytes.Buffer
	h := NewRepeatFilter(slog.NewTextHandler(&out, nil))
	start := time.Now()
	log := func(second int, message, cause string) {
		t.Helper()
		r := slog.NewRecord(start.Add(time.Duration(second)*time.Second), slog.LevelWarn, message, 0)
		r.Add("attempt", second, "error", cause)
		if err := h.Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for second := range 21 {
		log(second, "again", "one")
	}
	log(20, "again", "two")
	log(20, "other", "one")
	if n := strings.Count(out.String(), "\n"); n != 5 {
		t.Errorf("%d records, want 5: three of the first, one of the others each:\n%s", n, out.String())
	}
}
