package loader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"loaderd/loader"
	"loaderd/loader/assembly"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/internal/plantest"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
	"loaderd/packonline"
)

func isEOF(err error) bool { return errors.Is(err, io.EOF) }

var methods = []string{"concat", "bfd"}

// atoms are methods with the sizes of their atoms in rows: one row, a part of a row, and several rows.
var atoms = []struct {
	method string
	rows   float64
}{{"concat", 1}, {"concat", 0.25}, {"concat", 2}, {"bfd", 1}, {"bfd", 0.5}, {"bfd", 4}, {"pad", 1}, {"pad", 0.5},
	{"pad", 2}}

func TestRun_EveryTokenArrivesOnce(t *testing.T) {
	for _, atom := range atoms {
		for _, world := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s/%v/%d", atom.method, atom.rows, world), func(t *testing.T) {
				c := config(atom.method)
				c.Packing.Atom = atom.rows
				w := newFixture(c)
				w.docs.lengths(someLengths(3, 300)...)
				run, _ := w.start(t)
				if at, err := run.Seal(t.Context()); err != nil || at != 300 {
					t.Fatalf("Seal = %d, %v", at, err)
				}
				seen := map[int32]int{}
				ranks := make([][]*assembly.Batch, world)
				done := make(chan int)
				for rank := range world {
					go func() {
						ranks[rank] = read(t, run, state.RankID{Rank: rank, World: world}, 0, 0)
						done <- rank
					}()
				}
				for range world {
					<-done
				}
				for _, batches := range ranks {
					if len(batches) != len(ranks[0]) {
						t.Fatalf("ranks got %d and %d steps", len(batches), len(ranks[0]))
					}
					for _, b := range batches {
						checkPieces(t, b)
						for _, token := range tokensOf(t, b) {
							seen[token]++
						}
					}
				}
				delete(seen, -7)
				total := 0
				for i, n := range someLengths(3, 300) {
					total += n
					for _, token := range documentTokens(uint64(i+1), n) {
						if seen[token] != 1 {
							t.Fatalf("token %d occurred %d times", token, seen[token])
						}
					}
				}
				if len(seen) != total {
					t.Fatalf("%d different tokens, want %d", len(seen), total)
				}
			})
		}
	}
}

// checkPieces compares the tokens of a batch with its spans.
func checkPieces(t *testing.T, b *assembly.Batch) {
	t.Helper()
	checkRows(t, b, func(x packonline.Piece) []int32 { return documentTokens(x.Doc, int(x.Start+x.Length))[x.Start:] })
}

// checkRows compares the tokens of a batch and their values with the documents of its spans, and with padding.
func checkRows(t *testing.T, b *assembly.Batch, tokens func(packonline.Piece) []int32, repeats ...plan.Repeat) {
	t.Helper()
	all := tokensOf(t, b)
	for i, pieces := range b.Pieces {
		row := all[i*b.Bucket : (i+1)*b.Bucket]
		at := 0
		for _, p := range pieces {
			want := tokens(p)
			if !slices.Equal(row[at:at+len(want)], want) {
				t.Fatalf("step %d row %d: piece %v holds %v", b.Step, b.First+i, p, row[at:at+len(want)])
			}
			at += len(want)
			values := b.Contents[p.Doc].ColumnValues(0, 2, p.Start, p.Length)
			if column := columnOf(want); bringsColumn(plan.RefSequence(p.Doc)) && !bytes.Equal(values, column) ||
				values != nil && !bytes.Equal(values, column) {
				t.Fatalf("step %d row %d: beside the tokens of piece %v stands %v, want %v", b.Step, b.First+i, p, values, column)
			}
		}
		for ; at < len(row); at++ {
			if row[at] != -7 {
				t.Fatalf("step %d row %d: padding holds %d", b.Step, b.First+i, row[at])
			}
		}
	}
	checkLoss(t, b, repeats)
}

// checkLoss checks which tokens of a batch have a loss, and the weights of its spans.
func checkLoss(t *testing.T, b *assembly.Batch, repeats []plan.Repeat) {
	t.Helper()
	for i, pieces := range b.Pieces {
		var got, want []bool
		if b.Loss != nil {
			for k, n := range b.Loss[i] {
				got = append(got, slices.Repeat([]bool{k%2 == 0}, int(n))...)
			}
		}
		for k, p := range pieces {
			mask := make([]bool, p.Start+p.Length)
			for at := range mask {
				mask[at] = true
			}
			at := int32(0)
			for k, n := range plantest.Loss(plan.RefSequence(p.Doc), int(p.Start+p.Length)) {
				for range n {
					mask[at] = k%2 == 0
					at++
				}
			}
			mask = mask[p.Start:]
			for _, r := range repeats {
				if r.Row == b.First+i && r.Piece == k {
					clear(mask[:r.Tokens])
				}
			}
			want = append(want, mask...)
			weight := float32(1)
			if w := weightOf(plan.RefSequence(p.Doc)); w != nil {
				weight = *w
			}
			if b.Weights == nil && weight != 1 || b.Weights != nil && b.Weights[i][k] != weight {
				t.Fatalf("step %d row %d: piece %v has the weights %v, want %v", b.Step, b.First+i, p, b.Weights, weight)
			}
		}
		if got == nil && !slices.Contains(want, false) {
			continue
		}
		if !slices.Equal(got, want) {
			t.Fatalf("step %d row %d: loss %v of %v", b.Step, b.First+i, b.Loss, pieces)
		}
	}
}

// A run that is restarted after any number of steps continues the same plan, with and without checkpoints.
func TestRun_RestartAnywhereContinuesSamePlan(t *testing.T) {
	for _, atom := range atoms {
		lengths := someLengths(5, 160)
		c := config(atom.method)
		c.Packing.Atom = atom.rows
		whole := newFixture(c)
		whole.docs.lengths(lengths...)
		run, _ := whole.start(t)
		if _, err := run.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := read(t, run, state.RankID{World: 1}, 0, 0)
		for _, every := range []int{0, 1, 5} {
			w := newFixture(c)
			w.options.CheckpointSteps = every
			w.options.Ahead = 1
			var got []*assembly.Batch
			for i, n := range lengths {
				w.docs.lengths(n)
				if i%7 != 6 && i != len(lengths)-1 {
					continue
				}
				run, stop := w.start(t)
				if i == len(lengths)-1 {
					if _, err := run.Seal(t.Context()); err != nil {
						t.Fatal(err)
					}
					got = append(got, read(t, run, state.RankID{World: 1}, uint64(len(got)), 0)...)
				} else if run.Info().Planned > uint64(len(got)) {
					got = append(got, read(t, run, state.RankID{World: 1}, uint64(len(got)), 1)...)
				}
				if err := stop(); err != nil {
					t.Fatalf("after document %d: %v", i+1, err)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%v, checkpoint every %d: %d steps, want %d", atom, every, len(got), len(want))
			}
			for i := range want {
				if !reflect.DeepEqual(got[i], want[i]) {
					t.Fatalf("%v, checkpoint every %d: step %d differs", atom, every, i)
				}
			}
		}
	}
}

func TestRun_RefusesInvalidJoinsAndCommits(t *testing.T) {
	w := newFixture(config("concat"))
	w.docs.lengths(slices.Repeat([]int{16}, 40)...)
	run, stop := w.start(t)
	for _, c := range []struct {
		name  string
		place state.RankID
		step  uint64
		want  fault.Reason
	}{
		{"rank not below world", state.RankID{Rank: 2, World: 2}, 0, fault.InvalidTicket},
		{"negative rank", state.RankID{Rank: -1, World: 2}, 0, fault.InvalidTicket},
		{"no world", state.RankID{}, 0, fault.InvalidTicket},
		{"world does not divide", state.RankID{World: 3}, 0, fault.WorldMismatch},
		{"far future", state.RankID{World: 1}, 1 << 40, fault.StepNotPlanned},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := run.Join(c.place, c.step); reason(err) != c.want {
				t.Fatalf("Join = %v, want %s", err, c.want)
			}
		})
	}
	if _, err := run.Commit(t.Context(), planrecord.DefaultJob, 1000); reason(err) != fault.InvalidTicket {
		t.Fatalf("Commit = %v", err)
	}
	read(t, run, state.RankID{World: 1}, 0, 3)
	for _, c := range []struct{ step, want uint64 }{{2, 2}, {1, 2}, {3, 3}, {3, 3}} {
		if _, err := run.Commit(t.Context(), planrecord.DefaultJob, c.step); err != nil || run.Info().Committed != c.want {
			t.Fatalf("Commit(%d): %v, committed is %d", c.step, err, run.Info().Committed)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	run, _ = w.start(t)
	eventually(t, func() bool { return run.Info().Committed == 3 })
}

func TestOpen_RefusesAnotherConfiguration(t *testing.T) {
	w := newFixture(config("concat"))
	w.docs.lengths(slices.Repeat([]int{16}, 40)...)
	_, stop := w.start(t)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.config.Seed++
	if _, err := w.open(t); reason(err) != fault.PlanMismatch || !strings.Contains(err.Error(), "seed: 7 -> 8") {
		t.Fatalf("Open = %v", err)
	}
}

// A replay that contradicts the log stops the run, with both versions in the error.
func TestReplay_DetectsChangedDocument(t *testing.T) {
	w := newFixture(config("concat"))
	w.docs.lengths(slices.Repeat([]int{10}, 60)...)
	run, stop := w.start(t)
	read(t, run, state.RankID{World: 1}, 0, 4)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	clear(w.checkpoints.data)
	w.docs.docs[3].Tokens = w.docs.docs[3].Tokens[:9]
	run, err := w.open(t)
	if err != nil {
		t.Fatal(err)
	}
	err = run.Serve(t.Context())
	if reason(err) != fault.PlanMismatch || !strings.Contains(err.Error(), "step 0") ||
		!strings.Contains(err.Error(), "planned:") {
		t.Fatalf("Serve = %v", err)
	}
}

// Of two planners of one run, one appends; the other gets an error and stops.
func TestLeader_OnlyOneOfTwoPlannersAppends(t *testing.T) {
	w := newFixture(config("concat"))
	w.docs.lengths(slices.Repeat([]int{16}, 400)...)
	type outcome struct {
		steps       int
		read, serve error
	}
	var runs []*loader.Run
	for range 2 { // both open before either serves, so neither continues the other's plan
		run, err := w.open(t)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	outcomes := make(chan outcome, 2)
	for _, run := range runs {
		served := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { served <- run.Serve(ctx) }()
		go func() {
			defer cancel()
			_, sealErr := run.Seal(ctx)
			o := outcome{read: sealErr}
			if r, err := run.Join(state.RankID{World: 1}, 0); err == nil && sealErr == nil {
				for o.read == nil {
					if _, o.read = r.Next(ctx); o.read == nil {
						o.steps++
					}
				}
			}
			cancel()
			o.serve = <-served
			outcomes <- o
		}()
	}
	a, b := <-outcomes, <-outcomes
	if isEOF(b.read) {
		a, b = b, a
	}
	if !isEOF(a.read) || a.steps != 100 || a.serve != nil {
		t.Errorf("the leader: %+v", a)
	}
	if reason(b.read) != fault.NotLeading || reason(b.serve) != fault.NotLeading {
		t.Errorf("the other: %+v", b)
	}
}

func TestCache_SmallCacheRefetchesDocuments(t *testing.T) {
	w := newFixture(config("bfd"))
	w.options.CacheBytes = 1
	w.docs.lengths(someLengths(3, 200)...)
	run, _ := w.start(t)
	if _, err := run.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, b := range read(t, run, state.RankID{World: 1}, 0, 0) {
		checkPieces(t, b)
	}
	if w.docs.fetched == 0 {
		t.Fatal("nothing was fetched although the cache holds one document")
	}
}

// Join after the last step returns the end, and Join beyond that fails. Otherwise a trainer that resumes on the wrong
// run would take its training for complete.
func TestJoin_AfterLastStepReturnsEnd(t *testing.T) {
	w := newFixture(config("concat"))
	w.docs.lengths(slices.Repeat([]int{16}, 40)...)
	run, _ := w.start(t)
	if _, err := run.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := uint64(len(read(t, run, state.RankID{World: 1}, 0, 0)))
	if rest := read(t, run, state.RankID{World: 1}, n, 0); len(rest) != 0 {
		t.Errorf("%d steps behind the end", len(rest))
	}
	if _, err := run.Join(state.RankID{World: 1}, n+1); reason(err) != fault.StepNotPlanned {
		t.Errorf("Join at step %d of %d: %v", n+1, n, err)
	}
}

func TestDedupe_SkippedAndDuplicateDocumentsAreCounted(t *testing.T) {
	w := newFixture(config("concat"))
	doc := func(id uint64, skip plan.Skip) document.Document {
		d := document.Document{ID: id, Skip: skip}
		if skip == "" {
			d.Tokens = documentTokens(1, 4)
		}
		return d
	}
	w.docs.publish(doc(1, ""), doc(2, ""), doc(1, ""), doc(3, plan.SkipUndecodable), doc(3, ""), doc(0, plan.SkipEmpty),
		doc(0, ""), doc(0, ""))
	// id 1 is 8 documents back, two of which are unused; id 2 is 10 back
	w.docs.publish(doc(4, ""), doc(5, ""), doc(1, ""), doc(2, ""))
	run, _ := w.start(t)
	if _, err := run.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	read(t, run, state.RankID{World: 1}, 0, 0)
	eventually(t, func() bool { return run.Stats().Cursor == 12 })
	s := run.Stats()
	if s.Documents != 8 || s.Skipped.Count(plan.SkipDuplicate) != 2 || s.Skipped.Count(plan.SkipEmpty) != 1 ||
		s.Skipped.Count(plan.SkipUndecodable) != 1 {
		t.Fatalf("documents %d, skipped %v", s.Documents, s.Skipped)
	}
}

// eventually waits for a condition that another goroutine makes true.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatal("the condition was not met")
		case <-tick.C:
		}
	}
}
