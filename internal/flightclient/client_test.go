package flightclient_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/flightclient"
	"loaderd/stream"
	"loaderd/stream/publish"
)

// serve starts a daemon with rows of 8 tokens, two per step, over three documents that fill the first step.
func serve(t *testing.T) *daemon.Daemon {
	t.Helper()
	c := config.Default()
	c.Stream.Dir, c.Stream.Listen, c.Flight.Listen, c.HTTP.Listen = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0",
		"127.0.0.1:0"
	c.Flight.Insecure = true // these tests do not concern authentication
	c.Stream.MaxBytes, c.Stream.DeadLetterBytes, c.Stream.PlanBytes = 64<<20, 16<<20, 64<<20
	c.Plan.Packing.Method, c.Plan.Packing.Buckets, c.Plan.Shuffle.Window, c.Plan.Steps.Rows = "concat", []int{8}, 0, 2
	d, err := daemon.Start(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := d.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	p, err := publish.New(t.Context(), d.Store(), "test", publish.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, text := range []string{"one two three",
		"four five six seven eight nine ten eleven twelve thirteen fourteen fifteen", "sixteen"} {
		if err := p.Publish(t.Context(), stream.Message{Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// serveSealed is serve with a sealed run.
func serveSealed(t *testing.T) *daemon.Daemon {
	t.Helper()
	d := serve(t)
	if _, err := d.Run().Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

func open(t *testing.T, uri string) *flightclient.Client {
	t.Helper()
	c, err := flightclient.Open(uri, flightclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func read(t *testing.T, c *flightclient.Client, ticket api.Ticket) []flightclient.Batch {
	t.Helper()
	var all []flightclient.Batch
	if err := c.Read(t.Context(), ticket, func(b flightclient.Batch) error {
		all = append(all, b)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

var everyColumn = []string{"input_ids", "segment_ids", "cu_seqlens", "position_ids", "labels", "documents"}

func TestColumns_AreConsistent(t *testing.T) {
	d := serveSealed(t)
	c := open(t, d.FlightURI())
	all := read(t, c, api.Ticket{World: 1, Columns: everyColumn})
	tokens := int64(0)
	covered := map[uint64]int32{}
	for i, b := range all {
		if b.Meta.Step != uint64(i) || b.Meta.Parts != 1 || b.Rows != 2 || b.L != 8 || len(b.InputIDs) != 16 {
			t.Fatalf("batch %d: %+v, %d ids", i, b.Meta, len(b.InputIDs))
		}
		tokens += b.Meta.Tokens
		for row := range b.Rows {
			at := row * b.L
			var cu = []int32{0}
			for k, p := range b.Documents[row] {
				covered[p.Sequence] += p.Length
				cu = append(cu, cu[k]+p.Length)
				for n := range int(p.Length) {
					if b.SegmentIDs[at] != uint16(k+1) || b.PositionIDs[at] != int32(n) || b.Labels[at] != b.InputIDs[at] {
						t.Errorf("step %d row %d slot %d: segment %d, position %d, label %d of id %d", i, row, at, b.SegmentIDs[at],
							b.PositionIDs[at], b.Labels[at],
							b.InputIDs[at])
					}
					at++
				}
			}
			if diff := cmp.Diff(cu, b.CuSeqlens[row]); diff != "" {
				t.Errorf("step %d row %d: cu_seqlens -want +got:\n%s", i, row, diff)
			}
			for ; at < (row+1)*b.L; at++ {
				if b.SegmentIDs[at] != 0 || b.Labels[at] != -100 {
					t.Errorf("step %d row %d slot %d is padding: segment %d, label %d", i, row, at, b.SegmentIDs[at], b.Labels[at])
				}
			}
		}
	}
	if s := d.Run().Stats(); tokens != s.Tokens || uint64(len(all)) != s.Planned || len(covered) != 3 {
		t.Errorf("%d tokens of %d documents in %d steps, want %d of 3 in %d", tokens, len(covered), len(all),
			s.Tokens, s.Planned)
	}
}

// A client that reuses the memory of batches reads the same content as one that does not.
func TestReuse_GivesSameBatches(t *testing.T) {
	d := serveSealed(t)
	ticket := api.Ticket{World: 1, Columns: everyColumn}
	want := read(t, open(t, d.FlightURI()), ticket)
	c, err := flightclient.Open(d.FlightURI(), flightclient.Options{Reuse: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	step, places := 0, map[*int32]bool{}
	if err := c.Read(t.Context(), ticket, func(b flightclient.Batch) error {
		if diff := cmp.Diff(want[step], b); diff != "" {
			t.Errorf("step %d, -want +got:\n%s", step, diff)
		}
		places[&b.InputIDs[0]] = true
		step++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if step != len(want) || len(places) == step {
		t.Errorf("%d steps in %d places, want %d steps in fewer", step, len(places), len(want))
	}
}

func TestTicket_SelectsRankStepsAndColumns(t *testing.T) {
	c := open(t, serveSealed(t).FlightURI())
	whole := read(t, c, api.Ticket{})
	if len(whole) < 2 || whole[0].SegmentIDs == nil || whole[0].Labels != nil {
		t.Fatalf("%d steps with segments %v and labels %v, want at least 2 with the default columns", len(whole),
			whole[0].SegmentIDs, whole[0].Labels)
	}
	second := read(t, c, api.Ticket{Rank: 1, World: 2, Step: 1, Steps: 1, Columns: []string{"input_ids:uint16"}})
	if len(second) != 1 || second[0].Meta.Step != 1 || second[0].Rows != 1 {
		t.Fatalf("got %+v, want one row of step 1", second)
	}
	if diff := cmp.Diff(whole[1].InputIDs[8:], second[0].InputIDs); diff != "" {
		t.Errorf("second row of step 1, -whole +rank 1:\n%s", diff)
	}
	if behind := read(t, c, api.Ticket{Step: uint64(len(whole))}); len(behind) != 0 {
		t.Errorf("%d batches behind the end", len(behind))
	}
}

// A reader that stops ends its stream, and the daemon no longer waits for it.
func TestRead_StopEndsStream(t *testing.T) {
	d := serve(t)
	enough := errors.New("enough")
	calls := 0
	if err := open(t, d.FlightURI()).Read(t.Context(), api.Ticket{}, func(flightclient.Batch) error {
		calls++
		return enough
	}); err != enough || calls != 1 {
		t.Fatalf("got %v after %d calls", err, calls)
	}
	look, limit := time.NewTicker(5*time.Millisecond), time.After(2*time.Minute)
	defer look.Stop()
	for len(d.Run().Stats().Readers) > 0 {
		select {
		case <-look.C:
		case <-limit:
			t.Fatalf("still there: %+v", d.Run().Stats().Readers)
		}
	}
}

func TestClient_Errors(t *testing.T) {
	c := open(t, serveSealed(t).FlightURI())
	refused := c.Read(t.Context(), api.Ticket{Rank: 2, World: 2}, func(flightclient.Batch) error { return nil })
	if flightclient.Reason(refused) != "INVALID_TICKET" || !strings.Contains(refused.Error(), "rank 2 of world 2") {
		t.Errorf("rank 2 of 2: %v", refused)
	}
	read(t, c, api.Ticket{}) // to the end, after which the counts are final
	var stats struct {
		Documents int `json:"documents"`
	}
	if err := c.Do(t.Context(), "stats", nil, &stats); err != nil || stats.Documents != 3 {
		t.Errorf("stats: %d documents, %v", stats.Documents, err)
	}
	if err := c.Do(t.Context(), "seal", map[string]string{"run": "other"},
		nil); flightclient.Reason(err) != "RUN_MISMATCH" {
		t.Errorf("seal of another run: %v", err)
	}
	if err := c.Do(t.Context(), "nonsense", nil, nil); flightclient.Reason(err) != "UNSUPPORTED" {
		t.Errorf("unknown action: %v", err)
	}
	if _, err := c.Filter(t.Context(), api.FilterRequest{Where: new(strings.Repeat("x", 64<<10))}); err == nil ||
		!strings.Contains(err.Error(), "action filter: its body has 65") || !strings.Contains(err.Error(), "at most 64512") {
		t.Errorf("a large body: %v", err)
	}
	if _, err := c.Filter(t.Context(), api.FilterRequest{Where: new(strings.Repeat("x", 60<<10))}); err == nil ||
		flightclient.Reason(err) != "INVALID_TICKET" {
		t.Errorf("an expression that is too large: %v", err)
	}
	for _, uri := range []string{"", "127.0.0.1:8815", "http://127.0.0.1:8815", "grpc://nowhere"} {
		if _, err := flightclient.Open(uri, flightclient.Options{}); err == nil ||
			!strings.Contains(err.Error(), "connect to") {
			t.Errorf("Open(%q): %v", uri, err)
		}
	}
	if err := open(t, "grpc://127.0.0.1:1").Read(t.Context(), api.Ticket{}, nil); err == nil ||
		!strings.Contains(err.Error(), "grpc://127.0.0.1:1") {
		t.Errorf("nothing listens: %v", err)
	}
}
