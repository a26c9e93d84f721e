package arrowout_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"loaderd/arrowout"
)

// Waits for steps, and the age of each document that begins in a batch, are counted in histograms.
func TestMetrics_CountWaitsAndDocumentAges(t *testing.T) {
	f := newFake(3, 4, 16)
	now := time.Now()
	// The last document was stored by a server whose clock is ahead.
	for _, ago := range []time.Duration{3 * time.Second, 2 * time.Hour, -time.Hour} {
		f.begins = append(f.begins, now.Add(-ago).UnixNano())
	}
	f.onNext = func(_ context.Context, step uint64) error {
		if step == 1 {
			<-time.After(300 * time.Millisecond)
		}
		return nil
	}
	cfg, reg := arrowout.Default(), prometheus.NewRegistry()
	cfg.Listen = "127.0.0.1:0"
	s, err := arrowout.NewServer(cfg, arrowout.AdaptRun(f), slog.New(slog.DiscardHandler), reg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	for r := mustGet(t, dial(t, s), `{}`); r.Next(); {
	}
	eventually(t, "all batches are counted", func() bool {
		return histogram(t, reg, "loaderd_document_seconds").GetSampleCount() == 9
	})
	ages := histogram(t, reg, "loaderd_document_seconds")
	for bound, want := range map[float64]uint64{0.1: 3, 2.5: 3, 3600: 6, 6 * 3600: 9} {
		if got := below(ages, bound); got != want {
			t.Errorf("%d documents took %v s at most, want %d", got, bound, want)
		}
	}
	if sum := ages.GetSampleSum(); sum < 3*7203 || sum > 3*7203+600 {
		t.Errorf("documents took %v s together", sum)
	}
	waits := histogram(t, reg, "loaderd_step_wait_seconds")
	if waits.GetSampleCount() != 4 || below(waits, 0.25) > 3 || below(waits, 300) != 4 { // the last: end of the run
		t.Errorf("waits are %v", waits)
	}
}

func histogram(t *testing.T, reg *prometheus.Registry, name string) *dto.Histogram {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric[0].GetHistogram()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return nil
}

// below returns the number of observations in a bucket.
func below(h *dto.Histogram, bound float64) uint64 {
	for _, b := range h.Bucket {
		if b.GetUpperBound() == bound {
			return b.GetCumulativeCount()
		}
	}
	return 0
}
