package leader

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"loaderd/internal/event"
	"loaderd/internal/humanize"
	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/state"
)

const (
	// growthPeriod is the period over which the growth of a stream is measured.
	growthPeriod = time.Minute
	// minGrowthPeriod is the minimum period from which a growth rate is derived.
	minGrowthPeriod = 10 * time.Second
	// nearlyFullTime is the remaining time, at the current growth rate, below which a half-full stream is reported as
	// nearly full.
	nearlyFullTime = time.Hour
)

// fillLevel is the last logged fill level of a stream.
type fillLevel int

const (
	fillNormal fillLevel = iota
	fillNear             // at least 90 % of the bound is used, or half of it and it is full within nearlyFullTime
	fillFull
)

// fillMeter measures the fill of one stream.
type fillMeter struct {
	fill         state.StreamFill
	level        fillLevel
	samples      []fillSample // of the last growthPeriod, about one per second
	lastState    document.StreamState
	maxMeanBytes int64 // highest mean size in bytes of the documents that arrived between two samples
}

type fillSample struct {
	at    time.Time
	bytes int64
}

// add updates the meter with the state of a stream. It reports whether the level has changed.
func (m *fillMeter) add(now time.Time, source string, s document.StreamState) (changed bool) {
	m.fill = state.StreamFill{Source: source, Name: s.Name, Bytes: s.Bytes, MaxBytes: max(s.MaxBytes, 0),
		Configured: s.Configured, Free: s.Free}
	if n := len(m.samples); n == 0 || now.Sub(m.samples[n-1].at) >= time.Second {
		m.samples = append(m.samples, fillSample{now, s.Bytes})
	}
	m.samples = slices.DeleteFunc(m.samples, func(x fillSample) bool { return now.Sub(x.at) > growthPeriod })
	if n := s.Messages - m.lastState.Messages; n > 0 && s.First == m.lastState.First {
		m.maxMeanBytes = max(m.maxMeanBytes, (s.Bytes-m.lastState.Bytes)/n)
	}
	m.lastState = s
	before := m.level
	if s.AccountMax > 0 {
		m.fill.Account = &state.Quota{Bytes: s.AccountBytes, MaxBytes: s.AccountMax,
			Full: s.AccountMax-s.AccountBytes < m.minFreeBytes(s, s.AccountMax)}
		m.fill.Full = m.fill.Account.Full
	}
	if m.fill.MaxBytes == 0 {
		m.level = fillNormal
		if m.fill.Full {
			m.level = fillFull
		}
		return m.level != before
	}
	room := m.fill.MaxBytes - s.Bytes
	m.fill.Full = m.fill.Full || room < m.minFreeBytes(s, m.fill.MaxBytes)
	soon := false
	if growth := m.growth(now); growth > 0 && !m.fill.Full {
		in := float64(room) / growth
		m.fill.FullInSeconds = &in
		soon = 2*s.Bytes >= m.fill.MaxBytes && in <= nearlyFullTime.Seconds()
	}
	switch share := float64(s.Bytes) / float64(m.fill.MaxBytes); {
	case m.fill.Full:
		m.level = fillFull
	case share >= .9 || soon:
		m.level = max(m.level, fillNear)
	case share < .85: // between the two thresholds the level stays
		m.level = fillNormal
	}
	return m.level != before
}

// growth returns the growth of the stream in bytes per second; 0 while it is unknown.
func (m *fillMeter) growth(now time.Time) float64 {
	if len(m.samples) == 0 {
		return 0
	}
	first := m.samples[0]
	over := now.Sub(first.at)
	if over < minGrowthPeriod {
		return 0
	}
	return float64(m.fill.Bytes-first.bytes) / over.Seconds()
}

// minFreeBytes returns the free space in bytes below which a stream counts as full: the size of the largest message
// that it accepts, capped at the larger of a tenth of the bound and the size of its documents. A producer whose
// document does not fit waits, and the server does not report it.
func (m *fillMeter) minFreeBytes(s document.StreamState, bound int64) int64 {
	mean := int64(0)
	if s.Messages > 0 {
		mean = s.Bytes / s.Messages
	}
	return min(s.MaxMessage, max(bound/10, mean, m.maxMeanBytes))
}

// streamFills measures the fills of the document streams.
type streamFills struct {
	release string // Options.Release
	log     *slog.Logger

	// mu guards the field below. No other mutex is locked while it is held.
	mu     sync.Mutex
	meters map[int]*fillMeter // by source
}

func newStreamFills(release string, log *slog.Logger) *streamFills {
	return &streamFills{release: release, log: log, meters: map[int]*fillMeter{}}
}

// measure updates the fill of a source's stream. It logs when the stream is nearly full, is full, or has room again.
func (f *streamFills) measure(source int, name string, s document.StreamState) {
	if level, fill, changed := f.add(source, name, s); changed {
		f.logLevel(name, level, fill)
	}
}

// add updates the fill of a source's stream. It returns the stream's level and fill, and whether the level has
// changed.
func (f *streamFills) add(source int, name string, s document.StreamState) (
	level fillLevel, fill state.StreamFill, changed bool,
) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.meters[source]
	if m == nil {
		m = &fillMeter{}
		f.meters[source] = m
	}
	changed = m.add(time.Now(), name, s)
	return m.level, m.fill, changed
}

// logLevel logs the new level of a source's stream.
func (f *streamFills) logLevel(source string, level fillLevel, x state.StreamFill) {
	keys := []any{"stream", x.Name, "bytes", x.Bytes, "max_bytes", x.MaxBytes}
	if x.IsAccountFull() {
		keys = append(keys, "account_bytes", x.Account.Bytes, "account_max_bytes", x.Account.MaxBytes)
	}
	if source != "" {
		keys = append(keys, "source", source)
	}
	switch level {
	case fillNear:
		if x.FullInSeconds != nil {
			keys = append(keys, "full_in", humanize.Time(time.Duration(*x.FullInSeconds*float64(time.Second))))
		}
		f.log.Warn("document stream is nearly full", append(keys, event.StreamNearlyFull, "do", x.Advice())...)
	case fillFull:
		severity := slog.LevelError
		if f.release == backend.RetentionPurge { // commits free space
			severity = slog.LevelWarn
		}
		f.log.Log(context.Background(), severity, "document stream is full, producers wait",
			append(keys, event.StreamFull, "do", x.Advice())...)
	default:
		f.log.Info("document stream has room again", append(keys, event.StreamHasRoom)...)
	}
}

// list returns the fills of all streams by the numbers of their sources.
func (f *streamFills) list() (out []state.StreamFill) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, source := range slices.Sorted(maps.Keys(f.meters)) {
		out = append(out, f.meters[source].fill)
	}
	return out
}
