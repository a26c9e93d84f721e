package loader_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader"
	"loaderd/loader/assembly"
	"loaderd/loader/fault"
	"loaderd/loader/maintenance"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// places are the points of the script below at which a foreign record is written to the plan.
var places = []string{"behind the first steps", "behind the flush", "behind the seal", "behind the end"}

// forgeries are foreign records of every kind, made from the current state of a plan.
var forgeries = map[string]func(p soFar) []byte{
	"rubbish":               func(soFar) []byte { return []byte("hello") },
	"nothing":               func(soFar) []byte { return nil },
	"a record that is cut":  func(p soFar) []byte { return p.last[:len(p.last)-3] },
	"the last record again": func(p soFar) []byte { return p.last },
	"a header":              func(p soFar) []byte { return p.header },
	"a commit of what is planned": func(p soFar) []byte {
		return planrecord.Encode(planrecord.Commit{Job: "trainer", Step: p.steps})
	},
	"a commit of step 2^40": func(soFar) []byte {
		return planrecord.Encode(planrecord.Commit{Job: "trainer", Step: 1 << 40})
	},
	"a world size": func(p soFar) []byte {
		return planrecord.Encode(planrecord.Resize{Job: "trainer",
			WorldSize: planrecord.WorldSize{Step: p.steps, Ranks: 7}})
	},
	"a leave": func(soFar) []byte { return planrecord.Encode(planrecord.Leave{Job: "trainer"}) },
	"a seal here": func(p soFar) []byte {
		return planrecord.Encode(planrecord.SealSource{Arrival: p.cursor, Last: p.cursor})
	},
	"a seal behind all documents": func(p soFar) []byte {
		return planrecord.Encode(planrecord.SealSource{Arrival: p.cursor, Last: 1 << 40})
	},
	"a seal in the past": func(soFar) []byte { return planrecord.Encode(planrecord.SealSource{Arrival: 1, Last: 1}) },
	"a seal of another source": func(p soFar) []byte {
		return planrecord.Encode(planrecord.SealSource{Arrival: p.cursor, Source: 1, Last: 9})
	},
	"a request":    func(soFar) []byte { return planrecord.Encode(planrecord.Seal{Requester: "stranger"}) },
	"a flush here": func(p soFar) []byte { return planrecord.Encode(planrecord.Flush{Arrival: p.cursor}) },
	"an end here":  func(p soFar) []byte { return planrecord.Encode(planrecord.End{Steps: p.steps}) },
	"an end elsewhere": func(p soFar) []byte {
		return planrecord.Encode(planrecord.End{Steps: p.steps + 3})
	},
	"a term":                   func(soFar) []byte { return planrecord.Encode(planrecord.Term{Daemon: "stranger"}) },
	"a note":                   func(soFar) []byte { return planrecord.Encode(planrecord.Foreign{Position: 2}) },
	"a note of a later record": func(soFar) []byte { return planrecord.Encode(planrecord.Foreign{Position: 1 << 40}) },
	"the next step":            func(p soFar) []byte { return p.step(func(*plan.Step) {}) },
	"step 2^40":                func(p soFar) []byte { return p.step(func(s *plan.Step) { s.Index = 1 << 40 }) },
	"a step of huge rows":      func(p soFar) []byte { return p.step(func(s *plan.Step) { s.Bucket = 1<<31 - 1 }) },
	"a step of one row":        func(p soFar) []byte { return p.step(func(s *plan.Step) { s.Rows = s.Rows[:1] }) },
	"a step of documents to come": func(p soFar) []byte {
		return p.step(func(s *plan.Step) { s.Rows[0] = []packonline.Piece{{Doc: 1 << 40, Length: 1}} })
	},
	"a step that goes back": func(p soFar) []byte {
		return p.step(func(s *plan.Step) { s.Cursor = plan.PositionAfter(1) })
	},
}

// soFar is the state of a plan that every reader of the log can see.
type soFar struct {
	header, last  []byte
	steps, cursor uint64
}

// step returns the record of a step that the planner could make next, with a change.
func (p soFar) step(change func(*plan.Step)) []byte {
	s := &plan.Step{Index: p.steps, Bucket: 16, Cursor: plan.PositionAfter(p.cursor),
		LowWatermark: plan.PositionBefore(p.cursor),
		Rows:         make([][]packonline.Piece, 4)}
	for i := range s.Rows {
		s.Rows[i] = []packonline.Piece{{Doc: p.cursor, Start: int32(i), Length: 1}}
	}
	change(s)
	records, err := planrecord.EncodeStep(s, 1<<20)
	if err != nil {
		panic(err)
	}
	return records[0]
}

// forge appends a record to the plan and returns its position.
func (w *fixture) forge(t *testing.T, make func(soFar) []byte) (at int) {
	t.Helper()
	w.plan.mu.Lock()
	defer w.plan.mu.Unlock()
	p := soFar{header: w.plan.records[0], last: w.plan.records[len(w.plan.records)-1]}
	for _, b := range w.plan.records {
		if e, err := planrecord.Decode(b); err == nil {
			if s, is := e.(planrecord.StepPart); is {
				p.steps, p.cursor = s.Index+1, s.Cursor.Last()
			}
		}
	}
	w.plan.records = append(w.plan.records, bytes.Clone(make(p)))
	return len(w.plan.records)
}

// served runs a run that two daemons serve and that is flushed and sealed. It calls write at each place, and returns
// what the readers got.
func (w *fixture) served(t *testing.T, leads bool, write func(place string)) (read map[string]outcome) {
	cluster, read := newTestCluster(), map[string]outcome{}
	w.options.Ahead, w.options.StallTimeout = 2, 5*time.Second
	w.docs.lengths(someLengths(4, 120)...)
	first, stopFirst := w.join(t, cluster, "first")
	begun := readAll(t, first, 3)
	second, stopSecond := w.join(t, cluster, "second")
	must(t, begun.err)
	write(places[0])
	_, err := first.Flush(t.Context())
	failed := errors.Join(err)
	write(places[1])
	w.docs.lengths(someLengths(5, 80)...)
	_, err = second.Seal(t.Context())
	failed = errors.Join(failed, err)
	write(places[2])
	if leads { // which daemon's reader reads first
		read["first"] = readAll(t, first, 0)
	}
	read["second"] = readAll(t, second, 0)
	if !leads {
		read["first"] = readAll(t, first, 0)
	}
	write(places[3])
	time.Sleep(2 * time.Second) // every follower of the plan has polled it
	read["behind the end"] = readAll(t, second, 0)
	for name, stop := range map[string]func() error{"first": stopFirst, "second": stopSecond} {
		o := read[name]
		o.served = stop()
		read[name] = o
	}
	if failed != nil && read["first"].served == nil && read["second"].served == nil {
		t.Errorf("a control failed and no daemon did: %v", failed)
	}
	return read
}

// outcome is the steps that a reader got, and the result of its daemon.
type outcome struct {
	batches     []*assembly.Batch
	err, served error
}

// readAll reads the first n steps of a run, or all if n is 0.
func readAll(t *testing.T, run *loader.Run, n int) (o outcome) {
	r, err := run.Join(state.RankID{World: 1}, 0)
	if err != nil {
		return outcome{err: err}
	}
	defer r.Close()
	for n == 0 || len(o.batches) < n {
		s, err := r.Next(t.Context())
		if err == nil {
			var b *assembly.Batch
			if b, err = run.Assemble(t.Context(), s, 0, len(s.Rows)); err == nil {
				o.batches = append(o.batches, unlent(b))
			}
		}
		if isEOF(err) {
			return o
		}
		if err != nil {
			o.err = err
			return o
		}
	}
	return o
}

// named matches the part of an error that names the damaging plan record.
var named = regexp.MustCompile(`(plan )?record \d+|documents up to \d+, the document stream ends at`)

// honest checks that a reader got all steps of the undisturbed run, or an error after a prefix of them. A daemon that
// starts with the plan cannot distinguish a plausible forged seal from a real one. It does not start with a seal that
// a leader has detected.
func (o outcome) honest(t *testing.T, who string, want []*assembly.Batch) {
	t.Helper()
	switch {
	case o.err == nil && !reflect.DeepEqual(o.batches, want):
		t.Errorf("%s: %d steps without an error, of %d", who, len(o.batches), len(want))
	case o.err != nil && len(o.batches) > 0 &&
		(len(o.batches) > len(want) || !reflect.DeepEqual(o.batches, want[:len(o.batches)])):
		t.Errorf("%s: other steps before the error %v", who, o.err)
	case o.served != nil && !named.MatchString(o.served.Error()):
		t.Errorf("%s: its daemon ends with %v", who, o.served)
	}
}

// A foreign record is appended to the plan of a run with a leader. Readers then get the run's own steps to the end,
// or an error. The daemon that stops names the record, and so does the next one. A repaired copy has the steps of the
// undisturbed run.
func TestForeignRecord_NeverChangesSteps(t *testing.T) {
	var want []*assembly.Batch
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(config("bfd"))
		for who, o := range w.served(t, true, func(string) {}) {
			if o.err != nil || o.served != nil || len(o.batches) < 20 {
				t.Fatalf("%s: %d steps, %v, %v", who, len(o.batches), o.err, o.served)
			}
			want = o.batches
		}
	})
	for what, forgery := range forgeries {
		for _, place := range places {
			for who, leads := range map[string]bool{"the leader's reader": true, "another reader": false} {
				t.Run(what+" "+place+", met by "+who, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { forgedAt(t, leads, place, forgery, want) })
				})
			}
		}
	}
}

func forgedAt(t *testing.T, leads bool, place string, forgery func(soFar) []byte, want []*assembly.Batch) {
	w := newFixture(config("bfd"))
	at := 0
	for who, o := range w.served(t, leads, func(here string) {
		if here == place {
			at = w.forge(t, forgery)
		}
	}) {
		o.honest(t, who, want)
	}
	next, err := restarted(t, w)
	if err == nil {
		next.honest(t, "after a restart", want)
	} else if !named.MatchString(err.Error()) {
		t.Errorf("it does not start: %v", err)
	}
	// The operator has the record's position from the daemons' errors, or passes it as --before.
	d, err := maintenance.Inspect(t.Context(), w.plan, w.checkpoints, uint64(at))
	must(t, err)
	copied := newFixture(w.config)
	copied.docs, copied.options = w.docs, w.options
	must(t, d.Copy(t.Context(), w.beginning(nil), "test", copied.beginning(&memLowWatermarks{docs: w.docs}),
		func(uint64) {}))
	run, stop := copied.start(t)
	if place != places[0] { // a copy cut at places[0] lacks the flush
		_, err = run.Seal(t.Context())
		must(t, err)
		readAll(t, run, 0).honest(t, "the repaired copy", want)
	}
	must(t, stop())
}

// restarted returns what a daemon that starts with the plan serves to its readers.
func restarted(t *testing.T, w *fixture) (o outcome, err error) {
	run, err := w.open(t)
	if err != nil {
		return o, err
	}
	stop := w.serve(t, run)
	o = readAll(t, run, 0)
	o.served = stop()
	return o, nil
}

// A leader that detects a foreign record notes it in the plan. No daemon follows that record later, and repair leaves
// it out without an option.
func TestForeignRecord_LeaderRecordsItInPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(config("bfd"))
		w.options.Ahead = 2
		w.docs.lengths(someLengths(4, 120)...)
		run, stop := w.start(t)
		read(t, run, state.RankID{World: 1}, 0, 3)
		at := w.forge(t, forgeries["a seal here"])
		if o := readAll(t, run, 0); reason(o.err) != fault.PlanForeign ||
			!strings.Contains(o.err.Error(), fmt.Sprintf("record %d ", at)) {
			t.Errorf("the reader receives %v", o.err)
		}
		if err := stop(); reason(err) != fault.PlanForeign {
			t.Errorf("Serve = %v", err)
		}
		if e, err := planrecord.Decode(w.plan.records[len(w.plan.records)-1]); err != nil ||
			e != (planrecord.Foreign{Position: uint64(at)}) {
			t.Errorf("the plan ends with %v, %v", e, err)
		}
		if _, err := w.open(t); err == nil || !strings.Contains(err.Error(),
			fmt.Sprintf("plan record %d: none of the run's daemons wrote it", at)) {
			t.Errorf("Open = %v", err)
		}
		d, err := maintenance.Inspect(t.Context(), w.plan, w.checkpoints, 0)
		if err != nil || d.Records != uint64(at-1) || !strings.HasPrefix(d.Cause, fmt.Sprintf("record %d: none", at)) ||
			len(d.LostControls) > 0 || !d.HasSameSteps() {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// A leader that lost its term to another leader does not report a foreign record.
func TestForeignRecord_TermOfAnotherLeaderIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(config("bfd"))
		w.options.Ahead = 2
		w.docs.lengths(someLengths(4, 120)...)
		run, stop := w.start(t)
		read(t, run, state.RankID{World: 1}, 0, 3)
		w.forge(t, forgeries["a term"])
		if o := readAll(t, run, 0); reason(o.err) != fault.NotLeading {
			t.Errorf("the reader receives %v", o.err)
		}
		if err := stop(); !errors.Is(err, fault.ErrLeadershipLost) {
			t.Errorf("Serve = %v", err)
		}
		for _, b := range w.plan.records {
			if e, _ := planrecord.Decode(b); e != nil && e.Kind() == (planrecord.Foreign{}).Kind() {
				t.Error("it is noted")
			}
		}
	})
}
