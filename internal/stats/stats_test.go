package stats

import (
	"testing"
	"time"

	"loaderd/loader"
)

func TestRateWindow_RatesOverLastTwoSeconds(t *testing.T) {
	var w RateWindow
	var last Rates
	for i := range 11 {
		last = w.Add(time.Duration(i)*500*time.Millisecond, Counts{Documents: int64(i), Tokens: int64(max(0, i-5)) * 1000})
		if i == 0 && last != (Rates{}) {
			t.Errorf("%+v of one moment", last)
		}
	}
	if last != (Rates{Documents: 2, Tokens: 2000}) {
		t.Errorf("%+v, want the last 2 s: 2 documents and 2000 tokens a second", last)
	}
	if len(w.samples) > 6 {
		t.Errorf("%d moments are kept", len(w.samples))
	}
	if again := w.Add(5*time.Second, Counts{Documents: 12, Tokens: 6000}); again != (Rates{Documents: 3, Tokens: 2500}) {
		t.Errorf("%+v of the same moment again", again)
	}
	if r := RatesBetween(Counts{1, 10}, Counts{3, 14}, 4*time.Second); r != (Rates{0.5, 1}) {
		t.Errorf("%+v, want half a document and a token a second", r)
	}
	if r := RatesBetween(Counts{}, Counts{1, 1}, 0); r != (Rates{}) {
		t.Errorf("%+v without time", r)
	}
}

func TestStats_Shares(t *testing.T) {
	s := loader.Stats{Padding: 1, Slots: 8, Truncated: 3, Documents: 4, CacheHits: 9, CacheMisses: 1}
	if PaddingShare(s) != 0.125 || TruncatedShare(s) != 0.75 || CacheHitShare(s) != 0.9 {
		t.Errorf("padding %v, truncated %v, cache hits %v", PaddingShare(s), TruncatedShare(s), CacheHitShare(s))
	}
	if none := (loader.Stats{}); PaddingShare(none) != 0 || TruncatedShare(none) != 0 || CacheHitShare(none) != 0 {
		t.Error("shares of nothing are not 0")
	}
}
