package planner_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
	"loaderd/shuffle"
)

func header() planrecord.Header {
	return plantest.Header(runconfig.Config{Seed: 3,
		Packing: packonline.Config{Method: "bfd", Buckets: []int{16}, Atom: 1, Pool: 8, Holdback: 100, MaxAge: 64},
		Shuffle: shuffle.Config{Window: 4}, Steps: runconfig.Steps{Rows: 2, Last: runconfig.LastPad},
		Attention: runconfig.AttentionDocument,
		Sources:   map[string]mixture.Source{plantest.Source: {Weight: 1, Epochs: 1}},
		Mix:       mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll}})
}

func begin(t *testing.T) *planner.Applier {
	t.Helper()
	a, err := planner.NewApplier(header())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func document(sequence uint64) plan.Arrival {
	return plan.Arrival{Sequence: sequence, ID: sequence, Length: int(1 + sequence*7%23)}
}

// Two runs get the same inputs: one planner directly, the other through an applier that is restored from its
// checkpoint after every input. Both make the same plan.
func TestApplier_RestoredAnywhereMakesSamePlan(t *testing.T) {
	controls := map[uint64][]planrecord.Control{20: {planrecord.Flush{Arrival: 20}, planrecord.Flush{Arrival: 20}},
		45: {planrecord.Flush{Arrival: 45}},
		50: {planrecord.SealSource{Arrival: 50, Last: 60}}}
	byHand, err := planner.New(header())
	if err != nil {
		t.Fatal(err)
	}
	var want, got []plan.Step
	for sequence := uint64(1); sequence <= 60; sequence++ {
		steps, err := byHand.Add(document(sequence))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, steps...)
		for _, c := range controls[sequence] {
			if _, flush := c.(planrecord.Flush); flush {
				want = append(want, byHand.Flush()...)
			}
		}
	}
	want = append(want, byHand.Seal()...)
	a := begin(t)
	do := func(r planner.Ready) error {
		got = append(got, r.Steps...)
		if r.Ended != (a.Planner.Clock() == 60) {
			t.Errorf("behind document %d: ended %v", a.Planner.Clock(), r.Ended)
		}
		return nil
	}
	for sequence := uint64(1); sequence <= 60; sequence++ {
		for _, c := range controls[sequence+5] { // recorded long before they take effect
			a.Record(c)
		}
		checkpoint, err := planrecord.DecodeCheckpoint(a.Checkpoint("f", planrecord.Tail{Position: sequence}).Encode())
		if err != nil {
			t.Fatal(err)
		}
		if a, err = planner.Restore(header(), checkpoint); err != nil {
			t.Fatal(err)
		}
		ready, err := a.AddDocument(document(sequence))
		if err != nil {
			t.Fatal(err)
		}
		if err := do(ready); err != nil {
			t.Fatal(err)
		}
		if err := a.ApplyPending(do); err != nil {
			t.Fatal(err)
		}
	}
	if len(want) < 20 || !reflect.DeepEqual(got, want) {
		t.Fatalf("%d steps of the applier, %d by hand, or others", len(got), len(want))
	}
	if !a.Ended {
		t.Error("the run has not ended behind the last document of its only source")
	}
}

// An applier rejects inputs in another order than that of the log.
func TestApplier_RefusesAnotherOrder(t *testing.T) {
	feed := func(a *planner.Applier, upto uint64) error {
		for a.Planner.Clock() < upto {
			if _, err := a.AddDocument(document(a.Planner.Clock() + 1)); err != nil {
				return err
			}
		}
		return nil
	}
	settle := func(a *planner.Applier) error { return a.ApplyPending(func(planner.Ready) error { return nil }) }
	for name, c := range map[string]struct {
		do   func(a *planner.Applier) error
		want string
	}{
		"a document before a control": {func(a *planner.Applier) error {
			a.Record(planrecord.Flush{Arrival: 3})
			return feed(a, 4)
		}, "flush behind arrival 3 must be applied first"},
		"a control that arrives late": {func(a *planner.Applier) error {
			if err := feed(a, 4); err != nil {
				return err
			}
			a.Record(planrecord.Flush{Arrival: 3})
			return settle(a)
		}, "behind arrival 3, but the plan is at arrival 4"},
		"a document behind the end": {func(a *planner.Applier) error {
			a.Record(planrecord.SealSource{Last: 2})
			if err := settle(a); err != nil {
				return err
			}
			return feed(a, 3)
		}, "the run has ended behind arrival 2"},
		"a gap": {func(a *planner.Applier) error {
			_, err := a.AddDocument(document(2))
			return err
		}, "the next one is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.do(begin(t)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// Committing jobs follow the commit records, and after the end of the run the applier needs no further input.
func TestApplier_JobsFollowCommitRecords(t *testing.T) {
	a := begin(t)
	before := a.Commits
	for _, e := range []planrecord.Entry{
		planrecord.Commit{Job: "a", Step: 5}, planrecord.Commit{Job: "b", Step: 2, Skipped: 1},
		planrecord.Commit{Job: "c", Step: 9},
		planrecord.Resize{Job: "a", WorldSize: planrecord.WorldSize{Step: 3, Ranks: 4}},
		planrecord.Resize{Job: "c", WorldSize: planrecord.WorldSize{Step: 3, Ranks: 4}},
		planrecord.Resize{Job: "a", WorldSize: planrecord.WorldSize{Step: 1, Ranks: 2}},
		planrecord.Leave{Job: "c"},
	} {
		a.Record(e)
	}
	if len(before) > 0 || fmt.Sprint(a.Commits) != "map[a:{5 0} b:{2 1}]" {
		t.Errorf("committing jobs %v, and %v before", a.Commits, before)
	}
	if fmt.Sprint(a.WorldSizes) != "map[a:{1 2}]" {
		t.Errorf("world sizes %v", a.WorldSizes)
	}
	a.FinishReplay()
	if a.Ended {
		t.Error("it ended without a record")
	}
	a.Record(planrecord.SealSource{})
	a.Record(planrecord.End{Steps: 0})
	if err := a.ApplyPending(func(planner.Ready) error { return nil }); err != nil {
		t.Fatal(err)
	}
	a.FinishReplay()
	if _, err := a.AddDocument(document(1)); err == nil || !a.Ended {
		t.Error("it goes on behind the end")
	}
}
