package arrowout_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"

	"loaderd/arrowout"
	"loaderd/internal/api"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

func TestStream_SchemaArrivesBeforeFirstStep(t *testing.T) {
	f := newFake(0, 4, 16)
	f.last = nil // no step is ever available
	c := dial(t, serve(t, f))
	r, cancel, err := get(t, c, `{}`) // returns only when the schema has arrived
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.Schema().Fields()); n != 2 {
		t.Errorf("%d columns", n)
	}
	if m := r.LatestAppMetadata(); len(m) > 0 {
		t.Errorf("the schema carries metadata %s", m)
	}
	cancel()
	eventually(t, "the reader is closed", func() bool { return f.readers.Load() == 0 })
}

func TestTicket_StepAndStepsSelectRange(t *testing.T) {
	c := dial(t, serve(t, newFake(10, 4, 16)))
	for _, tc := range []struct {
		step, steps uint64
		want        string
	}{{0, 0, "[0 1 2 3 4 5 6 7 8 9]"}, {3, 2, "[3 4]"}, {8, 5, "[8 9]"}, {9, 1, "[9]"}, {10, 0, "[]"}} {
		got := []uint64{}
		r := mustGet(t, c, fmt.Sprintf(`{"step":%d,"steps":%d}`, tc.step, tc.steps))
		for r.Next() {
			got = append(got, metadataOf(t, r).Step)
		}
		if r.Err() != nil || fmt.Sprint(got) != tc.want {
			t.Errorf("step %d steps %d: got %v, %v, want %s", tc.step, tc.steps, got, r.Err(), tc.want)
		}
	}
}

func metadataOf(t *testing.T, r *flight.Reader) api.Metadata {
	t.Helper()
	var m api.Metadata
	if err := json.Unmarshal(r.LatestAppMetadata(), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// rawCodec keeps the bytes of every message unchanged.
type rawCodec struct{ encoding.CodecV2 }

func (c rawCodec) Unmarshal(b mem.BufferSlice, v any) error {
	if d, ok := v.(*flight.FlightData); ok {
		d.DataBody = b.Materialize()
		return nil
	}
	return c.CodecV2.Unmarshal(b, v)
}

func dialRaw(t testing.TB, s *arrowout.Server) flight.Client {
	return dial(t, s, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2(proto.Name)})))
}

// rawMessages reads the messages of a whole stream in wire format.
func rawMessages(t *testing.T, c flight.Client, ticket string) [][]byte {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := c.DoGet(ctx, &flight.Ticket{Ticket: []byte(ticket)})
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for {
		d, err := stream.Recv()
		if err != nil {
			return all
		}
		all = append(all, d.DataBody)
	}
}

// wireSum is the SHA-256 of what TestStream_RereadingGivesSameBytes reads: clients of all versions expect these bytes.
const wireSum = "96f1061f0efe5ce770e2cedd13f3d5806861ea990a596f6b2090f3aa23c39eff"

func TestStream_RereadingGivesSameBytes(t *testing.T) {
	c := dialRaw(t, serve(t, newFake(20, 8, 64)))
	ticket := `{"rank":1,"world":2,"columns":["input_ids","segment_ids","documents"]}`
	first, again := rawMessages(t, c, ticket), rawMessages(t, c, ticket)
	if len(first) != 21 || !bytes.Equal(bytes.Join(first, nil), bytes.Join(again, nil)) {
		t.Fatalf("%d and %d messages, equal: %v", len(first), len(again),
			bytes.Equal(bytes.Join(first, nil), bytes.Join(again, nil)))
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(bytes.Join(first, nil))); sum != wireSum {
		t.Errorf("the bytes on the wire have changed: their sum is %s", sum)
	}
	for i, m := range first[1:] {
		var d flight.FlightData
		if err := protobuf.Unmarshal(m, &d); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasSuffix(m, d.DataBody) || (len(m)-len(d.DataBody))%64 != 0 {
			t.Errorf("the body of step %d starts at byte %d", i, len(m)-len(d.DataBody))
		}
	}
}

func TestStream_LargeStepsAreSplitByRows(t *testing.T) {
	const limit = 64 << 10
	f := newFake(3, 40, 2048)
	f.steps = append(f.steps, &plan.Step{Index: 3, Bucket: 40000, // one row exceeds the maximum size of a batch
		Rows: append(make([][]packonline.Piece, 39), []packonline.Piece{{Doc: 1, Length: 40000}})})
	s := serve(t, f, func(c *arrowout.Config) { c.BatchBytes = limit })
	c := dial(t, s)
	for rank := range 2 {
		ticket := fmt.Sprintf(`{"rank":%d,"world":2,"columns":["segment_ids","input_ids","labels"]}`, rank)
		r := mustGet(t, c, ticket)
		for _, step := range f.steps {
			for row, part, parts := 0, 0, 1; part < parts; part++ {
				if !r.Next() {
					t.Fatal("stream ended early:", r.Err())
				}
				m := metadataOf(t, r)
				if m.Step != step.Index || m.Part != part || (part > 0 && m.Parts != parts) || m.Rows < 1 ||
					int(r.Record().NumRows()) != m.Rows {
					t.Fatalf("step %d part %d of %d: got %+v with %d rows", step.Index, part, parts, m, r.Record().NumRows())
				}
				for i := range m.Rows {
					want := model(f, step.Rows[rank*20+row], step.Bucket)
					if got := rowOf(t, r.Record(), i); !slices.Equal(got.IDs, want.IDs) ||
						!slices.Equal(got.Segments, want.Segments) ||
						!slices.Equal(got.Labels, want.Labels) {
						t.Fatalf("step %d row %d differs", step.Index, row)
					}
					row++
				}
				if parts = m.Parts; part == parts-1 && row != 20 {
					t.Fatalf("step %d has %d rows", step.Index, row)
				}
			}
		}
		for i, m := range rawMessages(t, dialRaw(t, s), ticket) {
			if one := 40000 * 10; len(m) > limit+4096 && (len(m) < one || len(m) > one+4096) {
				t.Errorf("message %d has %d bytes", i, len(m))
			}
		}
	}
}

func TestWorldMismatch_ListsValidWorldSizes(t *testing.T) {
	f := newFake(2, 8, 16)
	f.info.Config.Packing.Buckets, f.info.Config.Steps.Table = []int{16, 32}, []int{12, 6}
	f.info.Schedule = runconfig.NewSchedule(f.info.Config)
	_, _, err := get(t, dial(t, serve(t, f)), `{"rank":0,"world":4}`)
	if info := infoOf(t, err, codes.FailedPrecondition); info.Reason != "WORLD_MISMATCH" ||
		info.Metadata["divisors"] != "1 2 3 6" {
		t.Errorf("got %v", info)
	}
}

func TestStream_OneBatchAheadOfSlowReader(t *testing.T) {
	f := newFake(200, 4, 64<<10) // 1.5 MiB per batch
	s := serve(t, f)
	// A client that never reads: its window of 64 KiB fills, then the server must stop assembling.
	c := dial(t, s, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStaticStreamWindowSize(64<<10))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := c.DoGet(ctx, &flight.Ticket{Ticket: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two batches", func() bool { return f.assembled.Load() >= 2 })
	settled, quiet := f.assembled.Load(), 0
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for quiet < 20 {
		<-tick.C
		if n := f.assembled.Load(); n != settled {
			settled, quiet = n, 0
		}
		quiet++
	}
	if settled > 4 {
		t.Errorf("%d batches assembled for a client that reads none", settled)
	}
	cancel()
	eventually(t, "the reader is closed", func() bool { return f.readers.Load() == 0 })
}

func TestStream_NextStepIsAssembledDuringSend(t *testing.T) {
	f := newFake(3, 4, 16)
	assembling, proceed := make(chan uint64), make(chan struct{})
	f.onAssemble = func(step uint64) {
		if step == 1 {
			assembling <- step
			<-proceed
		}
	}
	r := mustGet(t, dial(t, serve(t, f)), `{}`)
	<-assembling // the second step is being assembled ...
	if !r.Next() || metadataOf(t, r).Step != 0 {
		t.Fatal("... and does not hold the first back:", r.Err())
	}
	close(proceed)
	rest := 0
	for r.Next() {
		rest++
	}
	if rest != 2 || r.Err() != nil {
		t.Fatalf("want the two others and the end, got %d and %v", rest, r.Err())
	}
}

func TestStream_RepeatedCancelsLeaveNoReader(t *testing.T) {
	f := newFake(50, 4, 512)
	f.last = nil
	var waits atomic.Int64
	f.onNext = func(_ context.Context, step uint64) error {
		if step >= 50 {
			waits.Add(1)
		}
		return nil
	}
	c := dial(t, serve(t, f))
	for i := range 200 {
		r, cancel, err := get(t, c, fmt.Sprintf(`{"step":%d}`, i%51))
		if err != nil {
			t.Fatal(err)
		}
		if i%3 > 0 && i%51 < 50 && !r.Next() {
			t.Fatal(r.Err())
		}
		cancel()
	}
	eventually(t, "all readers are closed", func() bool { return f.readers.Load() == 0 })
}

func TestStream_CancelEndsWait(t *testing.T) {
	f := newFake(1, 4, 16)
	f.last = nil
	ended := make(chan error, 1)
	waiting := make(chan struct{})
	f.onNext = func(ctx context.Context, step uint64) error {
		if step == 0 {
			return nil
		}
		close(waiting)
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
	r, cancel, err := get(t, dial(t, serve(t, f)), `{}`)
	if err != nil || !r.Next() {
		t.Fatal(err)
	}
	<-waiting
	cancel()
	<-ended
	if r.Next() || status.Code(r.Err()) != codes.Canceled {
		t.Errorf("got %v", r.Err())
	}
}
