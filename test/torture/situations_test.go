package torture_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/daemontest"
	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
	"loaderd/internal/statustest"
	"loaderd/internal/testscale"
	"loaderd/loader/diagnosis"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/state"
	"loaderd/stream"
	"loaderd/stream/server"
)

// scenario is a daemon in one of the situations that an operator can encounter.
type scenario struct {
	*testing.T
	c      config.Config
	d      *daemon.Daemon
	flight string
	page   string
	ctx    context.Context
	end    func()           // ends ctx, and the ranks disconnect
	server *natstest.Server // the scenario's own server, if the test started one
	link   *natstest.Link
}

// settingsOfScenarios returns the settings of a run whose first step takes 32 documents of one row.
func settingsOfScenarios(t *testing.T, url string) config.Config {
	c := daemontest.Settings(t, url)
	c.Tokenizer = config.Tokenizer{Name: config.TokenizerNone, Fingerprint: tokens, VocabSize: 1 << 16,
		End: "none", Pad: "0"}
	c.Plan.Packing.Method, c.Plan.Packing.Buckets, c.Plan.Shuffle.Window = "concat", []int{2048}, 0
	// 256 KiB per step, so that buffers hold one or two steps
	c.Plan.Steps.Rows, c.Serve.Ahead, c.Serve.StallTimeout = 32, 6, 4*time.Second
	return c
}

// open starts the daemon of the scenario.
func (s *scenario) open() {
	s.Helper()
	d, err := daemon.Start(s.ctx, s.c, slog.New(slog.DiscardHandler))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = d.Stop(ctx) // some cannot be stopped gracefully
	})
	s.d, s.flight, s.page = d, d.FlightURI(), d.PageURL()
}

// publish publishes documents of one row each, to a source or to the run's only stream.
func (s *scenario) publish(n int, source string) { publishRows(s.T, s.d.Store(), n, source) }

func publishRows(t *testing.T, store *stream.Store, n int, source string) {
	t.Helper()
	var all []stream.Message
	for range n {
		m := stream.Message{ContentType: stream.TypeTokens, Tokenizer: tokens,
			Data: stream.AppendTokens(nil, make([]int32, 2048))}
		if source != "" {
			m.Subject = "docs." + source
		}
		all = append(all, m)
	}
	natstest.Publish(t, store, all...)
}

// rank reads as a rank of a world until it gets an error or the scenario ends. each is called with every step, before
// the next one is requested.
func (s *scenario) rank(rank, world int, each func(step uint64)) (ended <-chan error) {
	s.Helper()
	// small buffers, so that a stopped rank is detected
	client, err := flightclient.Open(s.flight, flightclient.Options{Window: 64 << 10})
	if err != nil {
		s.Fatal(err)
	}
	done := make(chan error, 1)
	left := make(chan struct{})
	ctx, leave := context.WithCancel(s.ctx)
	s.Cleanup(func() { s.end(); leave(); <-left; client.Close() })
	go func() {
		defer close(left)
		done <- client.Read(ctx, api.Ticket{Rank: rank, World: world}, func(b flightclient.Batch) error {
			each(b.Meta.Step)
			return ctx.Err()
		})
	}()
	return done
}

// every returns a function that takes a step per d.
func (s *scenario) every(d time.Duration) func(uint64) {
	return func(uint64) {
		select {
		case <-time.After(d):
		case <-s.ctx.Done():
		}
	}
}

// flow publishes twice per second until the scenario ends.
func (s *scenario) flow(publish func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s.ctx.Err() == nil {
			publish()
			s.every(500 * time.Millisecond)(0)
		}
	}()
	return func() { s.end(); <-done }
}

var numbers = regexp.MustCompile(`[0-9][0-9,.]*`)

// shown returns the page's status, by its API.
func (s *scenario) shown() (api.Status, error) {
	var status api.Status
	response, err := http.Get(s.page + "/api/status")
	if err != nil {
		return status, err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(string(b))
	}
	if err == nil {
		err = json.Unmarshal(b, &status)
	}
	if err == nil {
		for _, wrong := range statustest.Contradictions(&status) {
			s.Errorf("the status of %q: %s", status.Verdict.Sentence, wrong)
		}
	}
	return status, err
}

// says waits until the page shows a health and sentence, and checks that the Flight action returns the same.
func (s *scenario) expect(health diagnosis.Health, sentence string) api.Status {
	s.Helper()
	want := regexp.MustCompile("^" + sentence)
	var status api.Status
	var err error
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		status, err = s.shown()
		if err == nil && status.Verdict.Health == health && want.MatchString(status.Verdict.Sentence) {
			break
		}
		if time.Now().After(deadline) {
			s.Fatalf("the page shows %q (%s), %v; want %s: %s", status.Verdict.Sentence, status.Verdict.Health, err,
				health, sentence)
		}
	}
	client, err := flightclient.Open(s.flight, flightclient.Options{})
	if err != nil {
		s.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	if asked, err := client.Status(ctx, ""); err != nil || !want.MatchString(asked.Verdict.Sentence) &&
		asked.Verdict.Health == health {
		s.Errorf("the action shows %q, %v; the page %q", asked.Verdict.Sentence, err, status.Verdict.Sentence)
	}
	s.Logf("%s: %s", status.Verdict.Health, status.Verdict.Line())
	return status
}

// told waits for the error of a rank, which contains the sentence of the verdict.
func (s *scenario) expectError(ended <-chan error, v diagnosis.Verdict) {
	s.Helper()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(numbers.ReplaceAllString(err.Error(), "#"),
			numbers.ReplaceAllString(v.Sentence, "#")) {
			s.Errorf("the rank receives %v, the page shows %q", err, v.Sentence)
		}
	case <-time.After(time.Minute):
		s.Error("the rank receives nothing")
	}
}

// remote gives the scenario a separate server, which it reaches through a link.
func (s *scenario) remote() {
	s.server = natstest.Start(s.T)
	s.link = natstest.NewLink(s.T, s.server.Store().ClientURL())
	s.c.Stream = natstest.Config(s.T)
	s.c.Stream.Dir, s.c.Stream.Listen, s.c.Stream.URL, s.c.Stream.TokenFile = "", "", s.link.URL(),
		filepath.Join(s.server.Config().Dir, server.OperatorFile)
}

func mixed(names ...string) func(*config.Config) {
	return func(c *config.Config) {
		c.Plan.Sources = map[string]mixture.Source{}
		for _, name := range names {
			c.Plan.Sources[name] = mixture.Source{Weight: 1, Epochs: 1}
		}
	}
}

// Each situation is real. The page, the action and the errors of waiting ranks have the same sentence.
func TestVerdict_SameOnPageActionAndErrors(t *testing.T) {
	for _, x := range []struct {
		name    string
		prepare func(*config.Config)
		play    func(s *scenario)
	}{
		{"no publisher, no reader", nil, func(s *scenario) {
			s.open()
			s.expect(diagnosis.Waiting, `Waiting for documents, \d+ s$`)
		}},
		{"no reader", nil, func(s *scenario) {
			s.open()
			s.publish(300, "")
			s.expect(diagnosis.Waiting, `Waiting for ranks: none is connected, 6 steps are planned ahead$`)
		}},
		{"no step is planned yet", nil, func(s *scenario) {
			s.open()
			s.rank(0, 1, func(uint64) {})
			for range 3 {
				s.publish(4, "")
				s.every(time.Second)(0)
			}
			s.expect(diagnosis.Waiting, `First step in about \d+ s: 32 rows needed, \d+ buffered$`)
		}},
		{"a dry stream", nil, func(s *scenario) {
			s.open()
			s.publish(100, "")
			ended := s.rank(0, 1, func(uint64) {})
			s.expectError(ended, s.expect(diagnosis.Waiting, `Waiting for documents, \d+ s$`).Verdict)
		}},
		{"a dry source", mixed("code", "math"), func(s *scenario) {
			s.open()
			s.publish(500, "code")
			s.publish(40, "math")
			ended := s.rank(0, 1, func(uint64) {})
			s.expectError(ended, s.expect(diagnosis.Waiting, `Waiting for documents of source "math", \d+ s$`).Verdict)
		}},
		{"all sources rest", func(c *config.Config) {
			mixed("code", "math")(c)
			c.Plan.Mix.OnDry, c.Plan.Mix.DryAfter = mixture.DryShare, time.Second
		}, func(s *scenario) {
			s.open()
			s.publish(40, "code")
			s.publish(40, "math")
			ended := s.rank(0, 1, func(uint64) {})
			s.expectError(ended, s.expect(diagnosis.Waiting,
				`Waiting for documents of (any source|source "(code|math)", \d+ s)$`).Verdict)
		}},
		{"no source that has documents has a weight", mixed("code", "math"), func(s *scenario) {
			s.open()
			s.publish(100, "code")
			s.publish(100, "math")
			ended := s.rank(0, 1, func(uint64) {})
			s.expect(diagnosis.Waiting, `Waiting for documents of source`)
			if _, err := s.d.Run().SealSource(s.ctx, "math", ""); err != nil {
				s.Fatal(err)
			}
			if _, err := s.d.Run().Mix(s.ctx, state.MixRequest{Change: mixture.Change{Weights: map[string]float64{"code": 0,
				"math": 1}}}); err != nil {
				s.Fatal(err)
			}
			s.publish(100, "code")
			_ = ended
			s.expect(diagnosis.Waiting, `Waiting for a change of the mixture$`)
		}},
		{"the ranks set the pace", nil, func(s *scenario) {
			s.open()
			s.publish(3000, "")
			s.rank(0, 2, s.every(300*time.Millisecond))
			s.rank(1, 2, s.every(300*time.Millisecond))
			s.expect(diagnosis.Running, `Running: [0-9.]+k tokens/s, the ranks set the pace$`)
		}},
		{"the documents set the pace", nil, func(s *scenario) {
			s.open()
			s.rank(0, 1, func(uint64) {})
			defer s.flow(func() { s.publish(32, "") })()
			s.expect(diagnosis.Running, `Running: [0-9.]+k tokens/s, the documents set the pace$`)
		}},
		{"a slow rank", func(c *config.Config) { c.Serve.StallTimeout = 20 * time.Second }, func(s *scenario) {
			s.open()
			s.publish(3000, "")
			s.rank(0, 2, func(uint64) {})
			s.rank(1, 2, s.every(time.Second))
			status := s.expect(diagnosis.Running,
				`Running: [0-9.]+k tokens/s, rank 1 of 2 of job "trainer" holds the others \(\d steps behind\)$`)
			if len(status.Ranks) != 2 || status.Ranks[1].Lag == 0 {
				s.Errorf("ranks %+v", status.Ranks)
			}
		}},
		{"a rank that is stopped", func(c *config.Config) { c.Serve.StallTimeout = 20 * time.Second }, func(s *scenario) {
			s.open()
			s.publish(1000, "")
			ended := s.rank(0, 2, func(uint64) {})
			s.rank(1, 2, func(step uint64) {
				if step == 3 {
					<-s.ctx.Done()
				}
			})
			s.expectError(ended, s.expect(diagnosis.Waiting, `Waiting for rank 1 of 2 of job "\w+", \d+ steps behind$`).Verdict)
		}},
		{"a rank is killed, and the other one waits for it in a collective", nil, func(s *scenario) {
			s.open()
			s.publish(3000, "")
			both := make([]*flightclient.Client, 2)
			stands := make(chan struct{})
			for rank := range both {
				client, err := flightclient.Open(s.flight, flightclient.Options{Report: true})
				if err != nil {
					s.Fatal(err)
				}
				both[rank] = client
				left := make(chan struct{})
				s.Cleanup(func() { s.end(); <-left; client.Close() })
				go func() {
					defer close(left)
					_ = client.Read(s.ctx, api.Ticket{Rank: rank, World: 2, Job: "ddp"}, func(b flightclient.Batch) error {
						if b.Meta.Step < 20 {
							return nil
						}
						if rank == 1 {
							close(stands)
						}
						<-s.ctx.Done()
						return s.ctx.Err()
					})
				}()
			}
			<-stands
			both[1].Close() // as its kernel does
			status := s.expect(diagnosis.Failing, `Rank 1 of 2 of job "ddp" has not consumed step (1\d|20) for \d+ s$`)
			if len(status.Ranks) != 2 || status.Ranks[1].State != "absent" || status.Ranks[1].Unit != api.UnitRead ||
				status.Verdict.Reason != fault.RankMissing || len(status.Jobs) != 1 || !status.Jobs[0].Failing {
				s.Errorf("%+v, %+v, %+v", status.Verdict, status.Jobs, status.Ranks)
			}
		}},
		{"NATS is lost", nil, func(s *scenario) {
			s.remote()
			s.open()
			publishRows(s.T, s.server.Store(), 100, "")
			ended := s.rank(0, 1, func(uint64) {})
			s.expect(diagnosis.Waiting, `Waiting for documents, \d+ s$`)
			s.link.Cut()
			s.expect(diagnosis.Failing, `Waiting for NATS: the document stream is out of reach, \d+ s$`)
			_ = ended
			s.link.Restore()
			s.expect(diagnosis.Waiting, `Waiting for documents, \d+ s$`)
		}},
		{"poison documents", nil, func(s *scenario) {
			s.open()
			s.rank(0, 1, func(uint64) {})
			defer s.flow(func() {
				s.publish(32, "")
				natstest.Publish(s.T, s.d.Store(), poison(8)...)
			})()
			status := s.expect(diagnosis.Running, `Running: .*; \d+ % of the documents cannot be decoded$`)
			if !strings.Contains(status.Verdict.Advice, "loaderd dlq") {
				s.Errorf("%+v", status.Verdict)
			}
		}},
		{"nothing but poison", nil, func(s *scenario) {
			s.open()
			s.publish(64, "")
			s.rank(0, 1, func(uint64) {})
			for range 20 {
				natstest.Publish(s.T, s.d.Store(), poison(40)...)
				s.publish(16, "")
				s.every(300 * time.Millisecond)(0)
			}
			s.expect(diagnosis.Failing, `Running: .*; \d+ % of the documents cannot be decoded$`)
		}},
		{"ended", nil, func(s *scenario) {
			s.open()
			s.publish(100, "")
			ended := s.rank(0, 1, func(uint64) {})
			daemontest.Seal(s.T, s.d)
			s.expect(diagnosis.Running, `Ended at step 4$`)
			if err := <-ended; err != nil {
				s.Error(err)
			}
		}},
		{"ended, and a rank has steps to go", nil, func(s *scenario) {
			s.open()
			s.publish(300, "")
			s.rank(0, 1, s.every(3*time.Second))
			daemontest.Seal(s.T, s.d)
			s.expect(diagnosis.Running, `All 10 steps are planned: rank 0 of 1 of job "trainer" has been sent \d+$`)
		}},
		{"the document stream is created again", nil, func(s *scenario) {
			s.remote()
			s.open()
			publishRows(s.T, s.server.Store(), 100, "")
			s.expect(diagnosis.Waiting, ``)
			js := s.server.Store().JetStream()
			if err := js.DeleteStream(s.ctx, "DOCS"); err != nil {
				s.Fatal(err)
			}
			// The daemon stops because of it, and shows it until then.
			select {
			case err := <-ends(s.d):
				if reason(err) != fault.StreamMismatch {
					s.Errorf("the daemon ended with %v", err)
				}
			case <-time.After(time.Minute):
				s.Error("the daemon goes on")
			}
			if v := s.d.Run().Verdict(); v.Health != diagnosis.Failing || !strings.HasPrefix(v.Sentence, "Stopped: ") {
				s.Errorf("%+v", v)
			}
		}},
		{"the document stream may lose documents", nil, func(s *scenario) {
			s.remote()
			s.open()
			publishRows(s.T, s.server.Store(), 3000, "")
			s.rank(0, 1, s.every(300*time.Millisecond))
			js := s.server.Store().JetStream()
			st, err := js.Stream(s.ctx, "DOCS")
			if err != nil {
				s.Fatal(err)
			}
			wrong := st.CachedInfo().Config
			wrong.MaxAge = 24 * time.Hour
			if _, err := js.UpdateStream(s.ctx, wrong); err != nil {
				s.Fatal(err)
			}
			s.expect(diagnosis.Failing, `Running: .*; something is wrong with the document stream$`)
		}},
		{longest, nil, func(s *scenario) {
			s.open()
			s.publish(1000, "")
			s.rank(0, 1, func(step uint64) {
				if step == 3 {
					<-s.ctx.Done()
				}
			})
			s.expect(diagnosis.Waiting, `Waiting for the ranks, (6\d|7\d|8\d) s: they have steps and request none$`)
		}},
	} {
		if x.name == longest && !testscale.All() {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			ctx, end := context.WithCancel(context.Background())
			t.Cleanup(end)
			s := &scenario{T: t, c: settingsOfScenarios(t, ""), ctx: ctx, end: end}
			if x.prepare != nil {
				x.prepare(&s.c)
			}
			x.play(s)
			end() // readers disconnect before the daemon stops
		})
	}
}

// longest is a situation that takes more than a minute to occur, so only make test-all runs it.
const longest = "the ranks ask for nothing"

// poison returns messages that are not documents.
func poison(n int) (all []stream.Message) {
	for range n {
		all = append(all, stream.Message{ContentType: stream.TypeJSON, Data: []byte("{")})
	}
	return all
}

func ends(d *daemon.Daemon) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- d.Wait() }()
	return ended
}

func reason(err error) fault.Reason {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// scenario returns a scenario of the daemon.
func (v *victim) scenario(t *testing.T) *scenario {
	return &scenario{T: t, c: v.c, flight: v.uri(), page: "http://" + v.c.HTTP.Listen, ctx: v.ctx, end: func() {}}
}

// These situations need a separate process: a full disk, a restart, a takeover.
func TestVerdict_OfSeparateProcess(t *testing.T) {
	settled := func(t *testing.T) config.Config {
		c := settingsOfScenarios(t, "")
		c.Stream.Listen, c.Flight.Listen, c.HTTP.Listen = natstest.FreeAddress(t), natstest.FreeAddress(t),
			natstest.FreeAddress(t)
		return c
	}
	store := func(v *victim) *stream.Store {
		c := natstest.Config(v.t)
		c.URL, c.Dir = v.nats(), v.c.Stream.Dir
		s, err := stream.Open(v.ctx, c, slog.New(slog.DiscardHandler))
		if err != nil {
			v.t.Fatal(err)
		}
		v.t.Cleanup(func() { s.Close() })
		return s
	}
	t.Run("a restart", func(t *testing.T) {
		c := settled(t)
		c.Serve.CheckpointSteps, c.Tokenizer = 0, config.Default().Tokenizer // everything is replayed and tokenized
		c.Serve.TokenStore.MaxBytes, c.Serve.Ahead = 0, 1<<20                // tokenized again, not read from the token store
		v := newVictim(t, c)
		v.start()
		v.do("stats", map[string]any{})
		// Random letters are the slowest text to tokenize. The replay takes seconds, and a moment for text of repeated
		// words.
		random := rand.New(rand.NewPCG(1, 2))
		var all []stream.Message
		for range 6000 {
			text := make([]byte, 16<<10)
			for i := range text {
				text[i] = 'a' + byte(random.IntN(26))
			}
			all = append(all, stream.Message{Data: text})
		}
		natstest.Publish(t, store(v), all...)
		daemontest.Eventually(t, func() bool {
			s, err := v.scenario(t).shown()
			return err == nil && s.Planned > 200
		})
		v.kill()
		v.start()
		v.scenario(t).expect(diagnosis.Waiting, `Replaying after a restart: at document \d+ of 6000$`)
		v.scenario(t).expect(diagnosis.Waiting, `Waiting for documents|Planning ahead`)
	})
	t.Run("the disk is full", func(t *testing.T) {
		v := newVictim(t, settled(t))
		v.start()
		v.do("stats", map[string]any{})
		publishRows(t, store(v), 600, "")
		s := v.scenario(t)
		s.rank(0, 1, func(step uint64) {
			if step == 3 {
				v.room(1)
			}
		})
		s.expect(diagnosis.Failing, `Waiting for the disk, \d+ s$`)
		v.kill()
	})
	t.Run("the daemon that plans is stopped", func(t *testing.T) {
		alone := natstest.Start(t)
		c := settled(t)
		c.Stream = natstest.Config(t)
		c.Stream.Dir, c.Stream.Listen, c.Stream.URL, c.Stream.TokenFile = "", "", alone.Store().ClientURL(),
			filepath.Join(alone.Config().Dir, server.OperatorFile)
		first := newVictim(t, c)
		first.start()
		first.do("stats", map[string]any{})
		other := c
		other.Flight.Listen, other.HTTP.Listen = natstest.FreeAddress(t), natstest.FreeAddress(t)
		second := newVictim(t, other)
		second.start()
		second.do("stats", map[string]any{})
		publishRows(t, alone.Store(), 100, "")
		s := second.scenario(t)
		status := s.expect(diagnosis.Waiting, `Waiting for documents|Waiting for ranks|Planning ahead`)
		daemontest.Eventually(t, func() bool { status, _ = s.shown(); return len(status.Daemons) == 2 })
		leads := func(name string) bool {
			status, _ := s.shown()
			for _, d := range status.Daemons {
				if d.IsLeader && strings.Contains(name, strings.TrimPrefix(d.Flight, "grpc://")) {
					return true
				}
			}
			return false
		}
		if !leads(first.uri()) {
			t.Fatalf("%+v", status.Daemons)
		}
		first.signal(syscall.SIGSTOP)
		defer first.signal(syscall.SIGCONT)
		daemontest.Eventually(t, func() bool { return leads(second.uri()) })
		s.expect(diagnosis.Waiting, `Waiting for documents|Waiting for ranks|Planning ahead`)
		daemontest.Eventually(t, func() bool {
			status, _ := s.shown()
			for _, d := range status.Daemons {
				if d.SilentSeconds > 5 {
					return true
				}
			}
			return false
		})
	})
}
