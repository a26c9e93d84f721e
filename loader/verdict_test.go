package loader_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"loaderd/loader"
	"loaderd/loader/diagnosis"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/follower"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// verdictTest is a run under test, with helpers that move its readers.
type verdictTest struct {
	*testing.T
	w   *fixture
	run *loader.Run
}

var rates = regexp.MustCompile(`\d+ (tokens/s|%)`)

func (j verdictTest) expect(health diagnosis.Health, sentence, limits string) diagnosis.Verdict {
	j.Helper()
	v := j.run.Verdict()
	about := rates.ReplaceAllStringFunc(v.Sentence, func(rate string) string { // ten seconds may hold a step more or less
		for near, want := range map[string]string{"[5-9]\\d tokens/s": "64 tokens/s", "(19|2[0-2]) %": "20 %"} {
			rate = regexp.MustCompile("^"+near).ReplaceAllString(rate, want)
		}
		return rate
	})
	if v.Health != health || !strings.HasPrefix(about, sentence) || v.Bottleneck != limits {
		j.Errorf("%+v, want %s: %s..., limited by %q", v, health, sentence, limits)
	}
	return v
}

func (j verdictTest) join(rank, world int, step uint64) *follower.Reader {
	j.Helper()
	r, err := j.run.Join(state.RankID{Rank: rank, World: world}, step)
	if err != nil {
		j.Fatal(err)
	}
	return r
}

func (j verdictTest) next(r *follower.Reader) {
	j.Helper()
	if _, err := r.Next(j.Context()); err != nil {
		j.Fatal(err)
	}
}

// asks requests a reader's next step, which is not available, in the background. told waits and returns the error.
func (j verdictTest) request(r *follower.Reader) (told func() error) {
	got := make(chan error, 1)
	go func() {
		_, err := r.Next(j.Context())
		got <- err
	}()
	return func() error { return <-got }
}

func (j verdictTest) undecodable(n int) {
	for range n {
		j.w.docs.publish(document.Document{Skip: plan.SkipUndecodable})
	}
}

func verdictRun(t *testing.T, name string, prepare func(*fixture), test func(verdictTest)) {
	bubble(t, name, func(t *testing.T) {
		w := newFixture(config("concat"))
		w.options.StallTimeout = 30 * time.Second
		prepare(w)
		run, stop := w.start(t)
		test(verdictTest{t, w, run})
		if err := stop(); err != nil && name != "failed" {
			t.Error(err)
		}
	})
}

func documents(n int) func(*fixture) {
	return func(w *fixture) { w.docs.lengths(slices.Repeat([]int{16}, n)...) }
}

// The verdict is one sentence, the same that a waiting reader gets as its cause.
func TestVerdict_IsCauseOfWaitingReader(t *testing.T) {
	verdictRun(t, "no reader", documents(400), func(j verdictTest) {
		time.Sleep(2 * time.Second)
		j.expect(diagnosis.Waiting, "Waiting for ranks: none is connected, 4 steps are planned ahead", diagnosis.LimitRanks)
	})
	verdictRun(t, "ranks read what they were sent before a restart", documents(400), func(j verdictTest) {
		time.Sleep(5 * time.Second)
		place := state.RankID{Job: "pretrain", Rank: 1, World: 4}
		j.run.RecordConsumption(place, state.Consumption{Session: "s", Delivered: 7})
		time.Sleep(2 * time.Second)
		v := j.expect(diagnosis.Waiting, "Waiting for ranks: 4 steps are planned ahead", diagnosis.LimitRanks)
		if v.Detail != `the ranks of job "pretrain" read what they were sent before` ||
			!strings.HasPrefix(v.Advice, "wait: ") {
			j.Errorf("%+v", v)
		}
		j.run.RecordConsumption(place, state.Consumption{Session: "s", Delivered: 7, Left: true})
		time.Sleep(3 * time.Second)
		j.expect(diagnosis.Waiting, "Waiting for ranks: none is connected, 4 steps are planned ahead", diagnosis.LimitRanks)
	})
	verdictRun(t, "no documents, no readers", documents(0), func(j verdictTest) {
		time.Sleep(3 * time.Minute)
		j.expect(diagnosis.Waiting, "Waiting for documents, 3 min", diagnosis.LimitDocuments)
	})
	verdictRun(t, "a reader has left before the first step", documents(6), func(j verdictTest) {
		r := j.join(0, 1, 3)
		told := j.request(r)
		time.Sleep(time.Second)
		j.expect(diagnosis.Waiting, "First step", diagnosis.LimitDocuments)
		if reason(told()) != fault.SourceDry {
			j.Error("the reader receives no error about missing documents")
		}
		r.Close()
		j.w.docs.lengths(slices.Repeat([]int{16}, 9)...)
		time.Sleep(4500 * time.Millisecond)
		j.expect(diagnosis.Waiting, "Planning ahead: 0 steps of 4, no reader is connected", diagnosis.LimitRanks)
	})
	verdictRun(t, "the first step is planned", documents(2), func(j verdictTest) {
		r := j.join(0, 1, 0)
		defer r.Close()
		told := j.request(r)
		time.Sleep(2 * time.Second)
		j.w.docs.lengths(16, 16)
		time.Sleep(2 * time.Second)
		v := j.expect(diagnosis.Waiting, "First step in about", diagnosis.LimitDocuments)
		if !strings.HasSuffix(v.Sentence, ": 10 rows needed, 4 buffered") || v.Reason != fault.PoolFilling {
			j.Errorf("%+v", v)
		}
		time.Sleep(30 * time.Second)
		v = j.expect(diagnosis.Waiting, "Waiting for documents, 3", diagnosis.LimitDocuments)
		var e *fault.Error
		if err := told(); !errors.As(err, &e) || !strings.HasPrefix(e.Message, "Waiting for documents, 2") ||
			e.Advice != v.Advice {
			j.Errorf("the reader receives %v", err)
		}
	})
	verdictRun(t, "the ranks set the pace", documents(4000), func(j verdictTest) {
		r := j.join(0, 1, 0)
		defer r.Close()
		for range 20 {
			j.next(r)
			time.Sleep(time.Second)
		}
		j.expect(diagnosis.Running, "Running: 64 tokens/s, the ranks set the pace", diagnosis.LimitRanks)
		time.Sleep(2 * time.Minute)
		v := j.expect(diagnosis.Waiting, "Waiting for the ranks, 2 min", diagnosis.LimitRanks)
		if v.Advice == "" {
			j.Error("the error has no advice")
		}
	})
	verdictRun(t, "the documents set the pace", documents(40), func(j verdictTest) {
		r := j.join(0, 1, 0)
		defer r.Close()
		read := make(chan struct{})
		go func() {
			defer close(read)
			for range 27 {
				j.next(r)
			}
		}()
		time.Sleep(10 * time.Millisecond) // no documents arrive at the moment when the state is sampled
		for range 20 {
			j.w.docs.lengths(16, 16, 16, 16)
			time.Sleep(time.Second)
		}
		j.expect(diagnosis.Running, "Running: 64 tokens/s, the documents set the pace", diagnosis.LimitDocuments)
		<-read
	})
	verdictRun(t, "a rank holds the others", documents(4000), func(j verdictTest) {
		fast, slow := j.join(0, 2, 0), j.join(1, 2, 0)
		defer fast.Close()
		defer slow.Close()
		read := make(chan error, 1)
		go func() {
			for {
				if _, err := fast.Next(j.Context()); err != nil {
					read <- err
					return
				}
			}
		}()
		for range 20 {
			time.Sleep(time.Second)
			j.next(slow)
		}
		j.expect(diagnosis.Running, `Running: 64 tokens/s, rank 1 of 2 of job "trainer" holds the others (`,
			diagnosis.LimitRanks)
		time.Sleep(20 * time.Second)
		v := j.expect(diagnosis.Waiting, `Waiting for rank 1 of 2 of job "trainer", `, diagnosis.LimitRanks)
		if v.Reason != fault.RankBehind || v.Facts["rank"] != "1" {
			j.Errorf("%+v", v)
		}
		var e *fault.Error
		if err := <-read; !errors.As(err, &e) || e.Message != v.Sentence+": "+v.Detail {
			j.Errorf("the others receive %v, not %s", err, v.Sentence)
		}
	})
	verdictRun(t, "the end", documents(60), func(j verdictTest) {
		r := j.join(0, 1, 0)
		defer r.Close()
		j.next(r)
		if _, err := j.run.Seal(j.Context()); err != nil {
			j.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		for j.run.Info().Planned < 15 {
			j.next(r)
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Second)
		j.expect(diagnosis.Running, `All 15 steps are planned: rank 0 of 1 of job "trainer" has been sent 1`,
			diagnosis.LimitRanks)
	})
	verdictRun(t, "NATS is lost", func(w *fixture) {
		documents(400)(w)
		w.odd(oddDocs{status: down, stuck: true})
	}, func(j verdictTest) {
		time.Sleep(2 * time.Second)
		v := j.expect(diagnosis.Failing,
			"Waiting for NATS: the document stream is out of reach, 0 s", diagnosis.LimitDocuments)
		if v.Detail != "the cable is out" {
			j.Errorf("%+v", v)
		}
	})
	verdictRun(t, "the plan cannot be stored", documents(400), func(j verdictTest) {
		r := j.join(0, 1, 0)
		defer r.Close()
		time.Sleep(2 * time.Second)
		release := j.w.plan.hold()
		defer release()
		j.next(r)
		j.next(r)
		time.Sleep(8 * time.Second)
		j.expect(diagnosis.Waiting, "Waiting for JetStream to store the plan, ", diagnosis.LimitPlan)
		time.Sleep(5 * time.Second)
		j.expect(diagnosis.Failing, "Waiting for JetStream to store the plan, ", diagnosis.LimitPlan)
	})
	verdictRun(t, "documents wait for the tokenizer", func(w *fixture) {
		documents(400)(w)
		w.odd(oddDocs{stuck: true, status: func(document.SourceStatus) document.SourceStatus {
			return document.SourceStatus{Last: 400, Fetched: 300, Delivered: 100, Buffered: 5 << 20, Tokenizing: true}
		}})
	}, func(j verdictTest) {
		time.Sleep(5 * time.Second)
		v := j.expect(diagnosis.Waiting, "Waiting for the tokenizer: 200 documents behind", diagnosis.LimitTokenizer)
		if v.Detail != "they are fetched (5.0 MiB)" {
			j.Errorf("%+v", v)
		}
	})
	bubble(t, "planning again", func(t *testing.T) {
		w := planned(t)
		w.odd(oddDocs{stuck: true})
		run, stop := w.start(t)
		time.Sleep(2 * time.Second)
		verdictTest{t, w, run}.expect(diagnosis.Waiting, "Replaying after a restart: at document 0 of 400",
			diagnosis.LimitTokenizer)
		must(t, stop())
	})
	verdictRun(t, "failed", documents(60), func(j verdictTest) {
		time.Sleep(2 * time.Second)
		j.w.docs.mu.Lock()
		j.w.docs.stream.Created = time.Unix(2e9, 0) // the stream was deleted and created again
		j.w.docs.mu.Unlock()
		time.Sleep(5 * time.Second)
		v := j.expect(diagnosis.Failing, "Stopped: ", "")
		if v.Reason != fault.StreamMismatch || v.Advice == "" {
			j.Errorf("%+v", v)
		}
	})
	verdictRun(t, "the document stream has wrong settings", documents(4000), func(j verdictTest) {
		r := j.join(0, 1, 0)
		defer r.Close()
		j.w.docs.mu.Lock()
		j.w.docs.trouble = errors.New("retention is interest")
		j.w.docs.mu.Unlock()
		for range 20 {
			j.next(r)
			time.Sleep(time.Second)
		}
		v := j.expect(diagnosis.Failing,
			"Running: 64 tokens/s, the ranks set the pace; something is wrong with the document stream", diagnosis.LimitRanks)
		if !strings.Contains(v.Detail, "retention is interest") {
			j.Errorf("%+v", v)
		}
	})
	verdictRun(t, "poison", func(w *fixture) {}, func(j verdictTest) {
		time.Sleep(300 * time.Millisecond) // so that the verdict is between the documents
		r := j.join(0, 1, 0)
		defer r.Close()
		read := make(chan struct{})
		reads := func() {
			for range 16 {
				j.next(r)
			}
			read <- struct{}{}
		}
		go reads()
		for range 20 {
			j.w.docs.lengths(16, 16, 16, 16)
			j.undecodable(1)
			time.Sleep(time.Second)
		}
		v := j.expect(diagnosis.Running,
			"Running: 64 tokens/s, the documents set the pace; 20 % of the documents cannot be decoded",
			diagnosis.LimitDocuments)
		if !strings.Contains(v.Advice, "loaderd dlq") {
			j.Errorf("%+v", v)
		}
		<-read
		go reads()
		for range 20 {
			j.w.docs.lengths(16, 16, 16, 16)
			j.undecodable(12)
			time.Sleep(time.Second)
		}
		if v := j.run.Verdict(); v.Health != diagnosis.Failing {
			j.Errorf("with three quarters undecodable: %+v", v)
		}
		<-read
	})
}

// For a run with several sources, the sentence names the source that the run waits for.
func TestVerdict_NamesSource(t *testing.T) {
	bubble(t, "dry", func(t *testing.T) {
		c := config("bfd")
		c.Sources = sources(map[string]float64{"code": 1, "web": 1})
		w, s := mixed(c, "code", "web")
		s["web"].lengths(someLengths(8, 400)...)
		s["code"].lengths(5, 5)
		run, stop := w.start(t)
		time.Sleep(3 * time.Minute)
		verdictTest{t, w, run}.expect(diagnosis.Waiting, `Waiting for documents of source "code", 3 min`,
			diagnosis.LimitDocuments)
		must(t, stop())
	})
	bubble(t, "all rest", func(t *testing.T) {
		c := config("bfd")
		c.Sources = sources(map[string]float64{"code": 1, "web": 1})
		c.Mix.OnDry, c.Mix.DryAfter = mixture.DryShare, time.Second
		w, s := mixed(c, "code", "web")
		s["web"].lengths(5, 5)
		s["code"].lengths(5, 5)
		run, stop := w.start(t)
		r, err := run.Join(state.RankID{World: 1}, 0)
		must(t, err)
		defer r.Close()
		time.Sleep(time.Minute)
		v := run.Verdict()
		if v.Health != diagnosis.Waiting || !strings.HasPrefix(v.Sentence, "Waiting for documents of") {
			t.Errorf("%+v", v)
		}
		must(t, stop())
	})
}
