package loader_test

import (
	"reflect"
	"testing"
	"time"

	"loaderd/loader/state"
)

// A quiet stream is flushed for a waiting reader, and the flush record replays to the same plan.
func TestLinger_FlushesQuietStreamForReader(t *testing.T) {
	w := newFixture(config("bfd"))
	w.options.Linger, w.options.CheckpointSteps = 50*time.Millisecond, 0
	w.docs.lengths(9, 9, 9, 9, 9) // a step of one-span rows, which would stay in the pool
	run, stop := w.start(t)
	have := read(t, run, state.RankID{World: 1}, 0, 1)
	if n := len(have[0].Pieces); n != 4 {
		t.Fatalf("the step has %d rows", n)
	}
	w.docs.lengths(someLengths(3, 100)...)
	have = append(have, read(t, run, state.RankID{World: 1}, 1, 5)...)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.options.Linger = 0
	run, stop = w.start(t) // replays from the start
	if again := read(t, run, state.RankID{World: 1}, 0, 6); !reflect.DeepEqual(again, have) {
		t.Fatal("the plan with a linger flush does not replay")
	}
	eventually(t, func() bool { return !run.Stats().Replaying })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
