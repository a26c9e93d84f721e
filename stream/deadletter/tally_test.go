package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/deadletter"
)

// keep stores letters of documents first to last, with the reasons in turn.
func keep(t *testing.T, s *stream.Store, first, last uint64, reasons ...string) {
	t.Helper()
	w, err := deadletter.Open(natstest.Context(t), s, time.Unix(1, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	for sequence := first; sequence <= last; sequence++ {
		reason := reasons[sequence%uint64(len(reasons))]
		m := document(sequence)
		if source := s.Config().Source; source != "" {
			m.Subject = "docs." + source
		}
		w.Put(natstest.Context(t), m, &deadletter.Problem{Reason: reason, Sentence: fmt.Sprint("document ", sequence)})
	}
	if w.Counts().Waiting == 0 {
		return
	}
	// On a slow disk the server may confirm a letter too late. It is stored in a further attempt.
	ctx, cancel := context.WithCancel(natstest.Context(t))
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	defer running.Wait()
	defer cancel()
	natstest.Eventually(t, "letters are stored", func() bool { return w.Counts().Stored == int64(last+1-first) })
}

// held counts what the stream of letters holds, letter by letter.
func held(t *testing.T, s *stream.Store) map[string]int64 {
	t.Helper()
	counts := map[string]int64{}
	eachLetter(t, s, func(m *jetstream.RawStreamMsg) { counts[m.Header.Get(deadletter.HeaderReason)]++ })
	return counts
}

func eachLetter(t *testing.T, s *stream.Store, f func(m *jetstream.RawStreamMsg)) {
	t.Helper()
	st, err := s.EnsureDeadLetters(natstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	info, err := st.Info(natstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	for sequence := info.State.FirstSeq; info.State.Msgs > 0 && sequence <= info.State.LastSeq; sequence++ {
		m, err := st.GetMsg(natstest.Context(t), sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		f(m)
	}
}

// counted returns the letters of a summary by reason. It checks the other guarantees of a summary.
func counted(t *testing.T, s deadletter.Summary) map[string]int64 {
	t.Helper()
	total := int64(0)
	for i, r := range s.Reasons {
		total += r.Letters
		if i > 0 && s.Reasons[i-1].Letters < r.Letters {
			t.Errorf("%s with %d letters stands behind one with less", r.Reason, r.Letters)
		}
		if want := int(min(r.Letters, 5)); len(r.Samples) != want {
			t.Errorf("%s has %d samples, want %d", r.Reason, len(r.Samples), want)
		}
		for k, x := range r.Samples {
			if k > 0 && r.Samples[k-1].Letter <= x.Letter || x.Time.IsZero() {
				t.Errorf("%s has samples %+v", r.Reason, r.Samples)
			}
		}
	}
	if total != s.Total {
		t.Errorf("%d letters of reasons, %d in all", total, s.Total)
	}
	return lettersOf(s)
}

func lettersOf(s deadletter.Summary) map[string]int64 {
	counts := map[string]int64{}
	for _, r := range s.Reasons {
		counts[r.Reason] = r.Letters
	}
	return counts
}

func refreshed(t *testing.T, x *deadletter.Tally) deadletter.Summary {
	t.Helper()
	natstest.Eventually(t, "the letters are counted", func() bool { // a server of a cluster may not have the stream yet
		err := x.Refresh(natstest.Context(t))
		if err != nil && !conn.IsTransient(err) && !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Fatal(err)
		}
		return err == nil
	})
	return x.Summary()
}

func same(t *testing.T, what string, x *deadletter.Tally, s *stream.Store) {
	t.Helper()
	if got, want := counted(t, refreshed(t, x)), held(t, s); !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %v are counted, the stream holds %v", what, got, want)
	}
}

// A tally equals what the stream of letters holds after any additions and deletions. A tally that begins later is the
// same.
func TestTally_EqualsStream(t *testing.T) {
	s := natstest.Start(t).Store()
	x := deadletter.NewTally(s, "web")
	if err := x.Refresh(natstest.Context(t)); err != nil && !s.Clustered() || x.Summary().Total != 0 ||
		len(x.Summary().Reasons) != 0 {
		t.Errorf("without a stream: %+v, %v", x.Summary(), err)
	}
	keep(t, s, 1, 20, "INVALID_JSON", "INVALID_JSON", "TOO_LARGE")
	same(t, "first letters", x, s)
	newest := x.Summary().Reasons[0].Samples[0]
	if newest.Source != "web" || newest.Sequence != 19 || newest.Letter != 19 || newest.Subject != "docs.a" ||
		newest.Problem != "document 19" {
		t.Errorf("the newest letter is shown as %+v", newest)
	}
	keep(t, s, 21, 40, "BAD_TOKENS")
	same(t, "more letters", x, s)

	st, err := s.EnsureDeadLetters(natstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Purge(natstest.Context(t), jetstream.WithPurgeSequence(18)); err != nil {
		t.Fatal(err)
	}
	same(t, "the oldest dropped", x, s)
	for _, sequence := range []uint64{20, 25, 40} { // between others, and the last one
		if err := st.DeleteMsg(natstest.Context(t), sequence); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "some deleted", x, s)
	keep(t, s, 41, 45, "INVALID_JSON")
	same(t, "letters behind a hole", x, s)
	if got := refreshed(t, deadletter.NewTally(s, "web")); !reflect.DeepEqual(got, x.Summary()) {
		t.Errorf("one that begins later has %+v, want %+v", got, x.Summary())
	}
	if err := st.Purge(natstest.Context(t)); err != nil {
		t.Fatal(err)
	}
	same(t, "all purged", x, s)
	keep(t, s, 46, 47, "INVALID_JSON")
	same(t, "letters behind a purge", x, s)

	if err := s.JetStream().DeleteStream(natstest.Context(t), s.Config().DeadLetterName()); err != nil {
		t.Fatal(err)
	}
	keep(t, s, 1, 60, "BAD_CHARSET")
	same(t, "another stream of the name", x, s)
}

// A full stream drops its oldest letters for each new one, and they leave the count.
func TestTally_FullStreamDropsOldestLetters(t *testing.T) {
	s := natstest.Start(t, func(c *stream.Config) { c.DeadLetterBytes = 1 << 20 }).Store()
	x := deadletter.NewTally(s, "")
	for first := uint64(1); first < 6000; first += 500 {
		keep(t, s, first, first+499, "INVALID_JSON", "TOO_LARGE", "BAD_TOKENS")
		same(t, fmt.Sprint("letter ", first), x, s)
	}
	if n := x.Summary().Total; n >= 6000 || n < 1000 {
		t.Errorf("%d letters are left: the stream has dropped none, or all", n)
	}
}

// Foreign letters use bounded memory. Reasons beyond the limit and invalid names count as Other.
func TestTally_ForeignLettersUseBoundedMemory(t *testing.T) {
	s := natstest.Start(t).Store()
	if _, err := s.EnsureDeadLetters(natstest.Context(t)); err != nil {
		t.Fatal(err)
	}
	for i, reason := range append([]string{"", "bad name", "x\x1b[2J", "OTHER", string(slices.Repeat([]byte("A"), 5000))},
		manyReasons(50)...) {
		m := nats.NewMsg(fmt.Sprintf("dlq.docs.x.%d", i))
		m.Header.Set(deadletter.HeaderReason, reason)
		m.Header.Set(deadletter.HeaderProblem, string(slices.Repeat([]byte("ä"), 5000)))
		m.Header.Set(deadletter.HeaderOriginalSequence, "-3")
		if _, err := s.JetStream().PublishMsg(natstest.Context(t), m); err != nil {
			t.Fatal(err)
		}
	}
	x := deadletter.NewTally(s, "")
	got := refreshed(t, x)
	counts := counted(t, got)
	if got.Total != 55 || len(counts) != 32 || counts[deadletter.OtherReason] != 5+50-31 || counts["REASON_0"] != 1 {
		t.Errorf("%d letters of %d reasons: %v", got.Total, len(counts), counts)
	}
	for _, r := range got.Reasons {
		for _, sample := range r.Samples {
			if len(sample.Problem) > 310 || sample.Sequence != 0 {
				t.Errorf("a sample of %d bytes: %+v", len(sample.Problem), sample)
			}
		}
	}
}

func manyReasons(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint("REASON_", i))
	}
	return out
}

// A tally that lost its connection continues where it was.
func TestTally_ContinuesAfterLostConnection(t *testing.T) {
	srv := natstest.Start(t)
	link := natstest.NewLink(t, srv.Store().ClientURL())
	s := srv.OpenRemoteAt(link.URL())
	keep(t, srv.Store(), 1, 10, "INVALID_JSON")
	x := deadletter.NewTally(s, "")
	same(t, "before", x, srv.Store())
	link.Cut()
	natstest.Eventually(t, "the connection is lost", func() bool { return !s.Status().Connected })
	if err := x.Refresh(natstest.TimeoutContext(t, time.Minute)); err == nil {
		t.Error("without a connection all is well")
	}
	if got := x.Summary(); got.Total != 10 {
		t.Errorf("without a connection: %+v", got)
	}
	keep(t, srv.Store(), 11, 15, "TOO_LARGE")
	link.Restore()
	natstest.Eventually(t, "it counts again", func() bool { return x.Refresh(natstest.Context(t)) == nil })
	same(t, "behind it", x, srv.Store())
}

// Several sources have one summary, and a source that is added later is included.
func TestTallies_SummarizeAllSources(t *testing.T) {
	s := natstest.Start(t).Store()
	all := deadletter.NewTallies()
	ctx, stop := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { all.Follow(ctx) })
	defer following.Wait()
	defer stop()
	web, math := s.Source("web", 2), s.Source("math", 2)
	keep(t, web, 1, 7, "INVALID_JSON")
	all.Add(web, "web")
	natstest.Eventually(t, "the letters of web are counted", func() bool { return sum(all.Summary()) == 7 })
	keep(t, math, 1, 4, "INVALID_JSON", "TOO_LARGE")
	all.Add(math, "math")
	natstest.Eventually(t, "the letters of math are counted", func() bool { return sum(all.Summary()) == 11 })
	keep(t, web, 8, 9, "INVALID_JSON")
	natstest.Eventually(t, "those that come are counted", func() bool { return sum(all.Summary()) == 13 })
	if got := lettersOf(all.Summary()); !reflect.DeepEqual(got, map[string]int64{"INVALID_JSON": 11, "TOO_LARGE": 2}) {
		t.Errorf("%v are counted", got)
	}
	if samples := all.Summary().Reasons[0].Samples; len(samples) != 5 || samples[0].Source != "web" ||
		samples[0].Sequence != 9 || samples[2].Source != "math" {
		t.Errorf("the newest are %+v", samples)
	}
	of := map[string]int64{}
	all.Each(func(source string, s deadletter.Summary) { of[source] = s.Total })
	if !reflect.DeepEqual(of, map[string]int64{"web": 9, "math": 4}) {
		t.Errorf("by source: %v", of)
	}
}

// sum counts the letters of all reasons. The total is available earlier.
func sum(s deadletter.Summary) (n int64) {
	for _, r := range s.Reasons {
		n += r.Letters
	}
	return n
}

func TestMergeSummaries_FoldsReasonsBeyondLimit(t *testing.T) {
	var all []deadletter.Summary
	for i := range 3 {
		s := deadletter.Summary{Total: 20}
		for k := range 20 {
			s.Reasons = append(s.Reasons, deadletter.Reason{Reason: fmt.Sprintf("R_%d_%d", i, k), Letters: 1})
		}
		all = append(all, s)
	}
	all = append(all, deadletter.Summary{Total: 2,
		Reasons: []deadletter.Reason{{Reason: deadletter.OtherReason, Letters: 2}}})
	got := deadletter.MergeSummaries(all...)
	if got.Total != 62 || sum(got) != 62 || len(got.Reasons) != 32 || got.Reasons[0].Reason != deadletter.OtherReason ||
		got.Reasons[0].Letters != 31 {
		t.Errorf("%d letters of %d reasons, the first %+v", sum(got), len(got.Reasons), got.Reasons[0])
	}
}
