package loaderd_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"loaderd/internal/config"
	"loaderd/internal/natstest"
	"loaderd/internal/objecttest"
	"loaderd/internal/reader"
	"loaderd/internal/testscale"
	"loaderd/loader"
	"loaderd/loader/mixture"
)

// pulling is a run that fetches its documents from a hub through a stream that holds a part of them.
func pulling(t *testing.T, several bool) (config.Config, *objecttest.Hub) {
	h := objecttest.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_TOKEN", "")
	for i := range 6 {
		h.Put("o/n", fmt.Sprintf("web/%d.jsonl", i), objecttest.Lines(fmt.Sprintf("web%d", i), testscale.Of(250, 1200), 2000))
		h.Put("o/n", fmt.Sprintf("code/%d.jsonl", i), objecttest.Lines(fmt.Sprintf("code%d", i), 100, 2000))
	}
	c := settings(t, "")
	c.Stream.MaxBytes = 2 << 20
	c.Serve.Release, c.Serve.Ahead, c.Serve.Checkpoint = loader.ReleasePurge, 4, 4
	c.Stream.Listen, c.Flight.Listen = natstest.FreeAddress(t), natstest.FreeAddress(t)
	c.Pull.From = []string{"hf://datasets/o/n/web/*.jsonl"}
	if several {
		c.Pull.From = nil
		c.Plan.Sources = map[string]mixture.Source{"web": {Weight: 3, Epochs: 1, Block: 32}, "code": {Weight: 1, Epochs: 1, Block: 32}}
		c.Pull.Sources = map[string][]string{"web": {"hf://datasets/o/n/web/*.jsonl"}, "code": {"hf://datasets/o/n/code/*.jsonl"}}
	}
	return c, h
}

// trained reads a run to its end as a trainer does: it commits, and asks again where a daemon is gone.
func trained(t *testing.T, uri string, step func(n int)) (ids [][]int32) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for ended := false; !ended; {
		client, err := reader.Open(uri, reader.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = client.Read(t.Context(), reader.Ticket{Step: uint64(len(ids)), Job: "train", Columns: []string{"input_ids"}}, func(b reader.Batch) error {
			ids = append(ids, slices.Clone(b.InputIDs))
			step(len(ids))
			return client.Do(t.Context(), "commit", map[string]any{"step": len(ids), "keeper": "train"}, nil)
		})
		ended = err == nil
		if closed := client.Close(); closed != nil && ended {
			t.Error(closed)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d steps so far: %v", len(ids), err)
		}
	}
	return ids
}

// A run that fetches its own documents through a small stream gives the bytes of an undisturbed one, whatever kills the daemon, and while connections to the
// store are cut. The run ends by itself when all objects are read.
func TestPulledThroughKills(t *testing.T) {
	for _, several := range testscale.Of([]bool{true}, []bool{false, true}) {
		t.Run(fmt.Sprint("several=", several), func(t *testing.T) {
			c, h := pulling(t, several)
			whole := c
			whole.Stream.MaxBytes, whole.Serve.Release, whole.Stream.Dir = 1<<30, loader.ReleaseKeep, t.TempDir()
			d := start(t, whole)
			want := trained(t, d.FlightURI(), func(int) {})
			stop(t, d)
			h.Files.Faults(func(*http.Request) objecttest.Fault {
				return objecttest.Fault{Cut: rand.IntN(2) == 0, After: rand.Int64N(400_000)}
			})
			v := newVictim(t, c)
			v.start()
			kills := testscale.Of(1, 12)
			next := len(want) / (kills + 1)
			got := trained(t, v.uri(), func(n int) {
				if n == next {
					next += len(want) / (kills + 1)
					v.kill()
					v.start()
				}
			})
			v.kill()
			if len(got) != len(want) {
				t.Fatalf("%d steps, want %d", len(got), len(want))
			}
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Fatalf("step %d differs", i)
				}
			}
		})
	}
}
