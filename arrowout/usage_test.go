package arrowout_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"google.golang.org/grpc/codes"

	"loaderd/arrowout"
	"loaderd/internal/auth"
)

// Streams are bounded per identity and in total. A stream that ends makes room for another.
func TestUsage_BoundsStreamsPerIdentity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identities.json")
	one, other := let(t, file, auth.Identity{Name: "one", Role: auth.Read}),
		let(t, file, auth.Identity{Name: "other", Role: auth.Read})
	f := newFake(2, 2, 16)
	f.last = nil // readers wait after the last step
	c := dial(t, serve(t, f, func(c *arrowout.Config) {
		c.Identities, c.MaxStreams, c.MaxStreamsPerIdentity = file, 3, 2
	}))
	jobs := map[string]string{one: "one", other: "other"}
	opened := 0
	open := func(token string) (context.CancelFunc, error) {
		opened++ // each in its own place
		ctx, cancel := context.WithCancel(withToken(token))
		t.Cleanup(cancel)
		s, err := c.DoGet(ctx, &flight.Ticket{Ticket: fmt.Appendf(nil, `{"job":"%s/%d"}`, jobs[token], opened)})
		return cancel, received(s, &flight.FlightData{}, err)
	}
	refused := func(token, part string) {
		t.Helper()
		_, err := open(token)
		if infoOf(t, err, codes.Unavailable).Reason != "LIMITED" || !strings.Contains(err.Error(), part) {
			t.Errorf("DoGet = %v, want one that names %q", err, part)
		}
	}
	var ends []context.CancelFunc
	for _, token := range []string{one, one, other} {
		end, err := open(token)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	refused(other, "flight.max_streams)")
	ends[2]()
	eventually(t, "a stream has ended", func() bool { return f.readers.Load() == 2 })
	eventually(t, "the bound of one", func() bool {
		_, err := open(one)
		return err != nil && strings.Contains(err.Error(), "identity one (flight.max_streams_per_identity)")
	})
	ends[0]()
	eventually(t, "there is room again", func() bool { _, err := open(one); return err == nil })
}

// Limits can be changed while a server runs: of streams, committing jobs, memory and slow readers.
func TestUsage_LimitsChangeWhileRunning(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identities.json")
	trainer := let(t, file, auth.Identity{Name: "big", Role: auth.Train})
	f := newFake(40, 4, 64<<10) // 1.5 MiB per batch
	cfg := arrowout.Default()
	cfg.Listen, cfg.Identities = "127.0.0.1:0", file
	cfg.MaxStreams, cfg.MaxStreamsPerIdentity, cfg.MaxCommittingJobsPerIdentity, cfg.SendBytes = 9, 9, 1, 16<<20
	s, metric := meteredBy(t, cfg, f, slog.New(slog.DiscardHandler))
	c := dial(t, s)
	commit := func(job string) error {
		stream, err := c.DoAction(withToken(trainer),
			&flight.Action{Type: "commit", Body: fmt.Appendf(nil, `{"step":1,"job":%q}`, job)})
		return received(stream, &flight.Result{}, err)
	}
	x := openFlood(t, s, 0, 9, 0, trainer, `{"job":"big/#"}`)
	eventually(t, "nine read", func() bool { return f.readers.Load() == 9 })
	for _, job := range []string{"big", "big/1"} {
		if err := commit(job); (err == nil) != (job == "big") {
			t.Errorf("job %s: %v", job, err)
		}
	}
	_, err := c.DoGet(withToken(trainer), &flight.Ticket{Ticket: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tenth is refused", func() bool { return metric("errors_total LIMITED") == 2 })
	if held := metric("held_bytes"); held > 16<<20 {
		t.Errorf("%.0f bytes are held", held)
	}

	cfg.MaxStreams, cfg.MaxStreamsPerIdentity, cfg.MaxCommittingJobsPerIdentity, cfg.SendBytes = 10, 10, 2, 1<<30
	s.ApplyLimits(cfg)
	if err := commit("big/1"); err != nil {
		t.Errorf("another job: %v", err)
	}
	eventually(t, "there is more memory", func() bool { return metric("held_bytes") > 16<<20 })
	openFlood(t, s, 0, 1, 0, trainer, `{}`)
	eventually(t, "ten read", func() bool { return f.readers.Load() == 10 })
	cfg.SlowReaderTimeout = 100 * time.Millisecond
	s.ApplyLimits(cfg)
	<-x.ended
}

// A client that commits in a loop writes at most as many records as the limit permits, and other clients continue.
func TestUsage_BoundsRecordsOfClient(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identities.json")
	loud, other := let(t, file, auth.Identity{Name: "loud", Role: auth.Train}),
		let(t, file, auth.Identity{Name: "other", Role: auth.Train})
	f := newFake(2, 2, 16)
	c := dial(t, serve(t, f, func(c *arrowout.Config) { c.Identities = file }))
	resize := &flight.Action{Type: "resize", Body: []byte(`{"step":1,"rank":0,"world":1,"session":"` +
		strings.Repeat("5e", 16) + `"}`)}
	commit := &flight.Action{Type: "commit", Body: []byte(`{"step":1}`)}
	try := func(token string, action *flight.Action) error {
		s, err := c.DoAction(withToken(token), action)
		return received(s, &flight.Result{}, err)
	}
	const perSecond, burst = 100, 2048
	began, taken := time.Now(), 0
	var refused error
	for ; refused == nil && taken < 1<<20; taken++ {
		refused = try(loud, []*flight.Action{commit, resize}[taken%2])
	}
	if refused == nil || infoOf(t, refused, codes.Unavailable).Reason != "LIMITED" {
		t.Fatalf("a loop of commits and changes of the world size ended with %v, want LIMITED", refused)
	}
	// The limit refills while a slow machine uses up the burst, so the bound grows with the time that the loop took.
	if most := burst + perSecond*time.Since(began).Seconds() + 1; float64(taken-1) > most {
		t.Errorf("%d requests were taken, want at most %.0f", taken-1, most)
	}
	if err := try(other, commit); err != nil {
		t.Errorf("another identity: %v", err)
	}
}

// The limit on committing and resized jobs applies per identity, not per run. It counts the existing jobs and those of
// open requests.
func TestUsage_BoundsJobsPerIdentity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identities.json")
	loud, other := let(t, file, auth.Identity{Name: "loud", Role: auth.Train}),
		let(t, file, auth.Identity{Name: "other", Role: auth.Train})
	operator := let(t, file, auth.Identity{Name: "operator", Role: auth.Operate})
	f := newFake(2, 2, 16)
	c := dial(t, serve(t, f, func(c *arrowout.Config) { c.Identities, c.MaxCommittingJobsPerIdentity = file, 3 }))
	try := func(token, action, job string) error {
		s, err := c.DoAction(withToken(token),
			&flight.Action{Type: action, Body: fmt.Appendf(nil, `{%s"job":%q}`,
				map[string]string{"commit": `"step":1,`, "resize": `"step":1,"rank":0,"world":1,"session":"` +
					strings.Repeat("5e", 16) + `",`}[action], job)})
		return received(s, &flight.Result{}, err)
	}
	for _, x := range []struct {
		token, action, job string
		refused            bool
	}{
		{loud, "commit", "loud", false}, {loud, "commit", "loud/1", false}, {loud, "commit", "loud/2", false},
		{loud, "commit", "loud/3", true}, {loud, "commit", "loud/1", false}, {other, "commit", "other", false},
		// the operator has created one for itself
		{operator, "commit", "loud/4", false}, {loud, "leave", "loud/2", false}, {loud, "commit", "loud/3", true},
		{loud, "leave", "loud/4", false}, {loud, "commit", "loud/3", false},
		{loud, "resize", "loud/1", false}, {loud, "resize", "loud/5", true}, {other, "resize", "other", false},
	} {
		switch err := try(x.token, x.action, x.job); {
		case x.refused && (infoOf(t, err, codes.Unavailable).Reason != "LIMITED" ||
			!strings.Contains(err.Error(), "flight.max_committing_jobs_per_identity")):
			t.Errorf("%s %s: %v", x.action, x.job, err)
		case !x.refused && err != nil:
			t.Errorf("%s %s: %v", x.action, x.job, err)
		}
	}

	asked, answer := make(chan struct{}, 9), make(chan struct{})
	f.act = func(string, uint64) (uint64, error) { asked <- struct{}{}; <-answer; return 0, nil }
	ended := make(chan error, 2)
	for _, job := range []string{"other/1", "other/2"} {
		go func() { ended <- try(other, "commit", job) }()
		<-asked
	}
	if err := try(other, "commit", "other/3"); infoOf(t, err, codes.Unavailable).Reason != "LIMITED" {
		t.Errorf("beside two that are asked for: %v", err)
	}
	close(answer)
	if err := errors.Join(<-ended, <-ended); err != nil {
		t.Error(err)
	}
}

// searching is a run with slow searches.
type searching struct {
	*fakeRun
	begun, end chan struct{}
}

func (s searching) LookupDocument(ctx context.Context, id string) ([]uint64, error) {
	s.begun <- struct{}{}
	<-s.end
	return s.fakeRun.LookupDocument(ctx, id)
}

// One identity runs one search at a time.
func TestUsage_OneSearchPerIdentity(t *testing.T) {
	run := searching{newFake(2, 2, 16), make(chan struct{}), make(chan struct{})}
	c := dial(t, serve(t, run))
	first := make(chan error, 1)
	go func() { _, err := act(c, "find", `{"id":"two"}`); first <- err }()
	<-run.begun
	if _, err := act(c, "find", `{"id":"two"}`); infoOf(t, err, codes.Unavailable).Reason != "LIMITED" {
		t.Errorf("find = %v", err)
	}
	close(run.end)
	if err := <-first; err != nil {
		t.Error(err)
	}
	go func() { <-run.begun }()
	if _, err := act(c, "find", `{"id":"two"}`); err != nil {
		t.Error(err)
	}
}

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}
func (s *syncBuffer) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

// Calls that fail in a loop are logged at a limited rate.
func TestUsage_FailuresAreLoggedAtLimitedRate(t *testing.T) {
	var log syncBuffer
	cfg := arrowout.Default()
	cfg.Listen = "127.0.0.1:0"
	s, err := arrowout.NewServer(cfg, arrowout.AdaptRun(newFake(2, 2, 16)), slog.New(slog.NewTextHandler(&log, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	c := dial(t, s)
	for range 1000 {
		if _, err := act(c, "nothing", ""); err == nil {
			t.Fatal("an action that there is not")
		}
	}
	s.Shutdown(context.Background())
	<-s.ServeErr()
	if lines := strings.Count(log.String(), "flight call failed"); lines < 5 || lines > 100 {
		t.Errorf("%d lines for 1,000 calls", lines)
	}
}
