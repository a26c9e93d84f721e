package torture_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/daemontest"
	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
	documents "loaderd/loader/document"
	"loaderd/stream"
	"loaderd/stream/docstream"
	"loaderd/stream/planlog"
	"loaderd/stream/publish"
)

// TestScale_MeasuresDaemonsRanksAndReplicas measures the cost of a run on several machines: serving by one, two and
// four daemons, the leader with many ranks, and three copies of every stream against one. LOADERD_SCALE is the number
// of rounds; the medians and extremes are printed. "moment" makes a short measurement that only checks that the test
// runs.
func TestScale_MeasuresDaemonsRanksAndReplicas(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("LOADERD_SCALE"))
	if forAMoment() {
		n = 1
	}
	if n == 0 {
		t.Skip("it measures: make bench-scale")
	}
	t.Run("daemons", func(t *testing.T) { scaleDaemons(t, n) })
	t.Run("ranks", func(t *testing.T) { scaleRanks(t, n) })
	t.Run("copies", func(t *testing.T) { scaleCopies(t, n) })
}

func forAMoment() bool { return os.Getenv("LOADERD_SCALE") == "moment" }

// size returns measured, or moment for a short measurement.
func size(measured, moment int) int {
	if forAMoment() {
		return moment
	}
	return measured
}

// crew starts several daemons of one run next to a NATS server.
func crew(t *testing.T, n int, c config.Config) *fleet {
	f := &fleet{}
	for range n {
		c := c
		c.Flight.Listen = natstest.FreeAddress(t)
		f.members = append(f.members, newVictim(t, c))
	}
	f.victim = f.members[0]
	for _, v := range f.members[1:] {
		v.giveUp, v.ctx = f.giveUp, f.ctx
	}
	for _, v := range f.members {
		v.start()
	}
	return f
}

func (f *fleet) stopAll() {
	for _, v := range f.members {
		v.terminate()
	}
}

// processorTime returns the CPU time that the daemon's process has used.
func (v *victim) processorTime() time.Duration {
	v.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", v.cmd.Process.Pid))
	if err != nil {
		v.t.Fatal(err)
	}
	_, behind, _ := strings.Cut(string(stat), ") ") // the name may contain any characters
	const utime, hertz = 11, 100                    // proc(5); USER_HZ is 100 wherever Go runs
	fields := strings.Fields(behind)
	var ticks int64
	for _, field := range fields[utime : utime+2] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			v.t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / hertz
}

// figure is measured values, printed as median and extremes.
type figure []float64

func (x figure) String() string {
	s := slices.Sorted(slices.Values(x))
	return fmt.Sprintf("%.4g (%.4g to %.4g)", s[len(s)/2], s[0], s[len(s)-1])
}

func (x figure) median() float64 { return slices.Sorted(slices.Values(x))[len(x)/2] }

// readers reads a number of steps with all ranks of jobs, each from the daemon that at returns. It returns the
// received tokens and the elapsed time. A rank trains for pace per step.
func (f *fleet) readers(jobs, world, steps int, pace time.Duration,
	at func(job, rank int) string) (tokens int64, took time.Duration) {
	f.t.Helper()
	clients := map[string]*flightclient.Client{}
	for _, uri := range f.uris() {
		c, err := flightclient.Open(uri, flightclient.Options{})
		if err != nil {
			f.t.Fatal(err)
		}
		defer c.Close()
		clients[uri] = c
	}
	var all atomic.Int64
	began := time.Now()
	g, ctx := errgroup.WithContext(f.ctx)
	for job := range jobs {
		for rank := range world {
			ticket := api.Ticket{Job: fmt.Sprint("job-", job), Rank: rank, World: world, Steps: uint64(steps)}
			g.Go(func() error {
				return clients[at(job, rank)].Read(ctx, ticket, func(b flightclient.Batch) error {
					all.Add(b.Meta.Tokens)
					pause(ctx, time.Until(began.Add(time.Duration(b.Meta.Step)*pace)))
					return nil
				})
			})
		}
	}
	if err := g.Wait(); err != nil {
		f.t.Fatalf("%v\n%s", err, f.logs())
	}
	return all.Load(), time.Since(began)
}

// scaleSettings returns the settings of a run over documents of tokens.
func scaleSettings(t *testing.T, url string) config.Config {
	c := daemontest.Settings(t, url)
	c.Stream.MaxBytes = 8 << 30
	c.Tokenizer = config.Tokenizer{Name: config.TokenizerNone, Fingerprint: tokens, VocabSize: 1 << 16,
		End: "none", Pad: "0"}
	c.Plan.Packing.Pool, c.Plan.Packing.MaxAge, c.Plan.Shuffle.Window = 1024, 4096, 256
	c.Serve.CheckpointSteps, c.Serve.StallTimeout = 0, time.Minute
	return c
}

// scaleDaemons reads all steps of a new run with eight ranks, spread over one, two and four daemons that share the
// machine, and its token store or none.
func scaleDaemons(t *testing.T, rounds int) {
	const world = 8
	documents, steps := size(40_000, 6_000), size(200, 5)
	c := scaleSettings(t, natstest.URL(natstest.Start(t).Store()))
	c.Plan.Packing.Buckets, c.Plan.Steps.Rows = []int{2048}, 64
	if err := publishTokens(newVictim(t, c), c.Stream.URL, "torture", documents, 1); err != nil {
		t.Fatal(err)
	}
	type kind struct {
		daemons int
		stored  bool
	}
	kinds := []kind{{1, false}, {2, false}, {4, false}, {1, true}, {2, true}, {4, true}}
	rate, cost := map[kind]figure{}, map[kind]figure{}
	for round := range rounds {
		for _, k := range kinds {
			n := k.daemons
			c.Run = fmt.Sprintf("daemons-%d-%v-%d", n, k.stored, round)
			c.Serve.TokenStore.Dir = ""
			if k.stored {
				c.Serve.TokenStore.Dir = t.TempDir()
			}
			f := crew(t, n, c)
			f.leading()
			var before, after time.Duration
			for _, v := range f.members {
				before += v.processorTime()
			}
			got, took := f.readers(1, world, steps, 0, func(_, rank int) string { return f.members[rank%n].uri() })
			for _, v := range f.members {
				after += v.processorTime()
			}
			rate[k] = append(rate[k], float64(steps)/took.Seconds())
			cost[k] = append(cost[k], float64((after-before).Nanoseconds())/float64(got))
			f.stopAll()
		}
	}
	for _, k := range kinds {
		t.Logf("%d daemons, token store %v: %v steps/s; %v ns of processor time a token, %.2f of one daemon's", k.daemons,
			k.stored, rate[k], cost[k], cost[k].median()/cost[kind{1, k.stored}].median())
	}
}

// scaleRanks reads with an increasing number of ranks from the leader, or from a follower. All ranks train at one
// pace, so that the daemons' periodic work has a constant cost.
func scaleRanks(t *testing.T, rounds int) {
	const world = 64
	documents, steps, pace := size(16_000, 6_000), size(60, 3), 500*time.Millisecond
	c := scaleSettings(t, natstest.URL(natstest.Start(t).Store()))
	c.Plan.Packing.Buckets, c.Plan.Steps.Rows = []int{256}, world
	c.Serve.Ahead = 16
	if err := publishTokens(newVictim(t, c), c.Stream.URL, "torture", documents, 1); err != nil {
		t.Fatal(err)
	}
	type kind struct {
		jobs   int
		leader bool
	}
	kinds := []kind{{1, false}, {4, false}, {16, false}, {1, true}, {16, true}}
	leads, other := map[kind]figure{}, map[kind]figure{}
	for round := range rounds {
		for _, k := range kinds {
			c.Run = fmt.Sprintf("ranks-%d-%v-%d", k.jobs, k.leader, round)
			f := crew(t, 2, c)
			leader := f.leading()
			follower := f.members[1-slices.Index(f.members, leader)]
			from := follower
			if k.leader {
				from = leader
			}
			l, o := leader.processorTime(), follower.processorTime()
			f.readers(k.jobs, world, steps, pace, func(int, int) string { return from.uri() })
			leads[k] = append(leads[k], float64((leader.processorTime()-l).Microseconds())/float64(steps))
			other[k] = append(other[k], float64((follower.processorTime()-o).Microseconds())/float64(steps))
			f.stopAll()
		}
	}
	for _, k := range kinds {
		t.Logf("%d ranks in %d jobs, read from the leader: %v; processor time a step: leader %v us, the other %v us",
			k.jobs*world, k.jobs, k.leader, leads[k], other[k])
	}
}

// scaleCopies measures the same on one cluster of three servers, with one copy of every stream and with three. All
// servers run in this process.
func scaleCopies(t *testing.T, rounds int) {
	cluster := natstest.StartCluster(t, 3, func(c *natstest.ClusterConfig) { c.SyncAlways = true })
	publishes, appends, batches, reads := map[int]figure{}, map[int]figure{}, map[int]figure{}, map[int]figure{}
	both := []int{1, 3}
	for round := range rounds {
		for _, copies := range both {
			c := cluster.Config()
			c.Replicas = copies
			c.Name = fmt.Sprintf("copies-%d-%d", copies, round)
			c.Subject = c.Name
			store := natstest.Open(t, c)
			publishes[copies] = append(publishes[copies], publishRate(t, store))
			reads[copies] = append(reads[copies], readRate(t, store))
			run := fmt.Sprintf("copies-%d-%d", copies, round)
			log, err := planlog.Open(t.Context(), store, run)
			if err != nil {
				t.Fatal(err)
			}
			last := uint64(0)
			for _, x := range []struct {
				records, times int
				rates          map[int]figure
			}{{1, size(1000, 10), appends}, {100, size(50, 2), batches}} {
				records := slices.Repeat([][]byte{make([]byte, 1000)}, x.records)
				began := time.Now()
				for range x.times {
					if err := log.Append(t.Context(), last, records...); err != nil {
						t.Fatal(err)
					}
					last += uint64(x.records)
				}
				x.rates[copies] = append(x.rates[copies], float64(x.records*x.times)/time.Since(began).Seconds())
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, x := range []struct {
		what  string
		rates map[int]figure
	}{{"publish in batches of 1,000, documents/s", publishes}, {"read, documents/s", reads},
		{"append one by one, records/s", appends}, {"append by 100, records/s", batches}} {
		t.Logf("%s: one copy %v, three %v: %.2f", x.what, x.rates[1], x.rates[3], x.rates[3].median()/x.rates[1].median())
	}
}

// copiedDocuments is the number of documents that are published and read.
var copiedDocuments = size(10_000, 200)

func publishRate(t *testing.T, store *stream.Store) float64 {
	t.Helper()
	p, err := publish.New(t.Context(), store, "scale", publish.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	data := stream.AppendTokens(nil, make([]int32, 1024))
	began := time.Now()
	for i := range copiedDocuments {
		if err := p.Publish(t.Context(), stream.Message{ID: fmt.Sprint(i), ContentType: stream.TypeTokens, Tokenizer: tokens,
			Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return float64(copiedDocuments) / time.Since(began).Seconds()
}

func readRate(t *testing.T, store *stream.Store) float64 {
	t.Helper()
	l, err := docstream.Open(t.Context(), store, docstream.Tokenization{Fingerprint: tokens, VocabSize: 1 << 16, End: -1})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	source, err := l.Read(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	for n := 0; n < copiedDocuments; {
		chunk, err := documents.Receive(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		n += len(chunk)
		source.ReleaseChunk()
	}
	return float64(copiedDocuments) / time.Since(began).Seconds()
}
