package leader

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/plan"
)

// A stream is full when its largest message may not fit. Before that it is reported once as nearly full, and its
// level does not flap around a threshold.
func TestFillMeter_Levels(t *testing.T) {
	const mib = 1 << 20
	m, now := &fillMeter{}, time.Now()
	at := func(after time.Duration, bytes, bound int64, want fillLevel) {
		t.Helper()
		now = now.Add(after)
		m.add(now, "", document.StreamState{Bytes: bytes, MaxBytes: bound, MaxMessage: 4 * mib})
		if m.level != want {
			t.Fatalf("%d of %d bytes: level %d, want %d", bytes, bound, m.level, want)
		}
	}
	at(0, 10*mib, 1000*mib, fillNormal)
	at(30*time.Second, 100*mib, 1000*mib, fillNormal) // full within five minutes, but most of it is free
	at(time.Hour, 899*mib, 1000*mib, fillNormal)
	at(time.Second, 900*mib, 1000*mib, fillNear)
	at(time.Second, 870*mib, 1000*mib, fillNear)
	at(time.Second, 996*mib, 1000*mib, fillNear)
	if m.fill.Full {
		t.Error("full with room for the largest message")
	}
	at(time.Second, 997*mib, 1000*mib, fillFull)
	at(time.Second, 870*mib, 1000*mib, fillFull)
	at(time.Second, 840*mib, 1000*mib, fillNormal)
	at(time.Second, 91*mib, 100*mib, fillNear) // for a small stream, a tenth of its bound counts
	at(time.Second, 97*mib, 100*mib, fillFull)
	at(time.Second, 97*mib, -1, fillNormal)
	if m.fill.MaxBytes != 0 || m.fill.FullInSeconds != nil {
		t.Errorf("an unlimited stream has a bound: %+v", m.fill)
	}
}

// A stream of large documents is full when the next document does not fit, even if the room exceeds a tenth of its
// bound.
func TestFillMeter_LargeDocuments(t *testing.T) {
	const kib = 1 << 10
	state := func(messages, bytes int64) document.StreamState {
		return document.StreamState{Messages: messages, Bytes: bytes * kib, MaxBytes: 1024 * kib, MaxMessage: 8192 * kib}
	}
	for name, tc := range map[string]struct {
		looks []document.StreamState
		full  bool
	}{
		"room for another":          {[]document.StreamState{state(2, 600)}, false},
		"no room for another":       {[]document.StreamState{state(3, 900)}, true},
		"the last ones were larger": {[]document.StreamState{state(10, 100), state(12, 800)}, true},
		"documents were purged": {[]document.StreamState{{Stream: plan.Stream{}, First: 1, Messages: 10, Bytes: 100 * kib,
			MaxBytes: 1024 * kib, MaxMessage: 8192 * kib}, state(11, 500)}, false},
	} {
		m := &fillMeter{}
		for i, s := range tc.looks {
			m.add(time.Now().Add(time.Duration(i)*time.Second), "", s)
		}
		if m.fill.Full != tc.full {
			t.Errorf("%s: full is %v, want %v", name, m.fill.Full, tc.full)
		}
	}
}

func TestFillMeter_Growth(t *testing.T) {
	m, now := &fillMeter{}, time.Now()
	for i := range 121 {
		at := now.Add(time.Duration(i) * monitorInterval)
		m.add(at, "", document.StreamState{Bytes: 600 + int64(i), MaxBytes: 1000, MaxMessage: 1})
	}
	if in := m.fill.FullInSeconds; in == nil || *in != 140 { // growth of 2 bytes per second, 280 bytes free
		t.Errorf("full in %v, want 140 s", in)
	}
	if m.level != fillNear {
		t.Errorf("level %d of a stream that is full in 140 s, want %d", m.level, fillNear)
	}
	if len(m.samples) > 62 {
		t.Errorf("%d samples of a minute", len(m.samples))
	}
	m.add(now.Add(2*time.Minute), "", document.StreamState{Bytes: 720, MaxBytes: 1000, MaxMessage: 1})
	if m.fill.FullInSeconds != nil {
		t.Errorf("full in %v s after a minute without a sample", *m.fill.FullInSeconds)
	}
}

// One line is logged per change of the level. A full stream is an error unless documents are purged.
func TestStreamFills_LevelIsLogged(t *testing.T) {
	for release, severity := range map[string]string{backend.RetentionKeep: "ERROR", backend.RetentionPurge: "WARN"} {
		var log bytes.Buffer
		fills := newStreamFills(release, slog.New(slog.NewTextHandler(&log, nil)))
		for _, n := range []int64{10, 95, 96, 100, 100, 20, 20} {
			fills.measure(1, "web", document.StreamState{Stream: plan.Stream{Name: "DOCS_web"}, Bytes: n, MaxBytes: 100,
				MaxMessage: 2})
		}
		var events []string
		for line := range strings.Lines(log.String()) {
			_, event, _ := strings.Cut(line, "event=")
			event, _, _ = strings.Cut(strings.TrimSpace(event), " ")
			events = append(events, event)
			if !strings.Contains(line, "stream=DOCS_web") || !strings.Contains(line, "source=web") {
				t.Errorf("line without stream and source: %s", line)
			}
		}
		if want := []string{"stream.nearly_full", "stream.full", "stream.has_room"}; !slices.Equal(events, want) {
			t.Errorf("%s: events %v, want %v", release, events, want)
		}
		if !strings.Contains(log.String(), "level="+severity+` msg="document stream is full`) {
			t.Errorf("%s: no line of level %s in %s", release, severity, &log)
		}
		if f := fills.list(); len(f) != 1 || f[0].Source != "web" || f[0].Full {
			t.Errorf("fills %+v, want that of web", f)
		}
	}
}
