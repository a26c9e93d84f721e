package loader_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader/state"
)

// A reader whose client reports consumption receives a window of steps beyond those that its trainer has taken,
// however many steps are planned.
func TestReader_WindowBoundsUnconsumedSteps(t *testing.T) {
	bubble(t, "window", func(t *testing.T) {
		const window = 8
		w := newFixture(config("concat"))
		w.docs.lengths(slices.Repeat([]int{16}, 600)...)
		run, stop := w.start(t)
		place := state.RankID{Rank: 0, World: 1}
		r, err := run.JoinAs(t.Context(), place, 0, state.Client{Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		sent := make(chan uint64, 100)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for r.AwaitRoom(ctx) == nil {
				s, err := r.Next(ctx)
				if err != nil {
					return
				}
				sent <- s.Index
			}
		}()
		for taken := uint64(0); taken < 30; taken += 5 {
			if got := run.RecordConsumption(state.RankID{Job: "trainer", Rank: 0, World: 1},
				state.Consumption{Session: "s", Delivered: taken}); !got.Known || got.Window != window {
				t.Errorf("%+v", got)
			}
			time.Sleep(time.Minute / 2)
			synctest.Wait()
			if n := len(sent); uint64(n) != taken+window {
				t.Fatalf("%d steps were sent with %d taken, want %d", n, taken, taken+window)
			}
		}
		if got := run.RecordConsumption(state.RankID{Job: "trainer", Rank: 0, World: 1},
			state.Consumption{Session: "s", Delivered: 1 << 50}); !got.Known {
			t.Errorf("%+v", got)
		}
		synctest.Wait()
		if n := len(sent); n != 25+2*window {
			t.Errorf("%d steps were sent with all taken of %d", n, 25+window)
		}
		cancel()
		<-done
		if got := run.RecordConsumption(state.RankID{Job: "trainer", Rank: 0, World: 2},
			state.Consumption{Session: "s"}); got.Known {
			t.Error("a rank without a stream is known")
		}
		r.Close()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// The window of a trainer that takes many steps per second is the number of steps that it takes in half a second.
// When the trainer slows down, the window returns to its default.
func TestReader_WindowFollowsRate(t *testing.T) {
	bubble(t, "rate", func(t *testing.T) {
		const usual = 8
		w := newFixture(config("concat"))
		w.docs.lengths(slices.Repeat([]int{16}, 3000)...)
		run, stop := w.start(t)
		place := state.RankID{Job: "trainer", Rank: 0, World: 1}
		r, err := run.JoinAs(t.Context(), place, 0, state.Client{Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		sent, done := 0, make(chan struct{})
		go func() {
			defer close(done)
			for r.AwaitRoom(ctx) == nil {
				if _, err := r.Next(ctx); err != nil {
					return
				}
				sent++
			}
		}()
		taken := 0
		report := func(steps int, after time.Duration) (window int) {
			time.Sleep(after)
			taken += steps
			window = run.RecordConsumption(place, state.Consumption{Session: "s", Delivered: uint64(taken)}).Window
			synctest.Wait()
			return window
		}
		for i, want := range []int{usual, usual, 30, 30, 30} { // 6 steps per 100 ms are 30 per half second
			if got := report(6, 100*time.Millisecond); got != want || sent != taken+want {
				t.Errorf("report %d: the window is %d, %d steps were sent with %d taken, want a window of %d", i, got, sent,
					taken, want)
			}
		}
		for range 2 {
			if got := report(1, time.Second); got != usual {
				t.Errorf("with one step in a second the window is %d, want %d", got, usual)
			}
		}
		cancel()
		<-done
		r.Close()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
