package arrowout_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/flight"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"loaderd/loader/assembly"
	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// benchRun serves one prebuilt step repeatedly: rows of 2048 tokens with 4 pieces each. The columns input_ids and
// segment_ids together have size bytes.
type benchRun struct {
	*fakeRun
	tokens   int
	contents map[uint64]document.Content
}

func newBenchRun(size int) benchRun {
	const bucket = 2048
	rows := size / (bucket * 6)
	f := newFake(0, rows, bucket)
	step := &plan.Step{Bucket: bucket}
	for range rows {
		step.Rows = append(step.Rows, []packonline.Piece{{Doc: 1, Length: 512}, {Doc: 2, Length: 512}, {Doc: 3, Length: 512},
			{Doc: 4, Length: 512}})
	}
	f.steps = []*plan.Step{step}
	run := benchRun{f, rows * bucket, map[uint64]document.Content{}}
	for ref := range uint64(4) {
		run.contents[ref+1] = document.Content{Tokens: make([]int32, bucket/4)}
	}
	return run
}

func (b benchRun) JoinAs(context.Context, state.RankID, uint64, state.Client) (*benchReader, error) {
	return &benchReader{run: b}, nil
}

func (b benchRun) Assemble(_ context.Context, s *plan.Step, first, n int) (*assembly.Batch, error) {
	b.assembled.Add(1)
	return &assembly.Batch{Bucket: 2048, First: first, Rows: n, Pieces: s.Rows[first : first+n], Contents: b.contents}, nil
}

type benchReader struct{ run benchRun }

func (r *benchReader) AwaitRoom(context.Context) error          { return nil }
func (r *benchReader) Next(context.Context) (*plan.Step, error) { return r.run.steps[0], nil }
func (r *benchReader) Dropped() <-chan error                    { return nil }
func (r *benchReader) Close()                                   {}

// plainServer is a Flight server without this package: the library's record writer over gRPC's own codec and
// settings.
type plainServer struct {
	flight.BaseFlightServer
	record arrow.Record
}

func (p *plainServer) DoGet(_ *flight.Ticket, stream flight.FlightService_DoGetServer) error {
	w := flight.NewRecordWriter(stream, ipc.WithSchema(p.record.Schema()))
	for {
		if err := w.Write(p.record); err != nil {
			return err
		}
	}
}

func servePlain(b *testing.B, run benchRun) string {
	ids := array.NewInt32Builder(memory.DefaultAllocator)
	ids.AppendValues(make([]int32, run.tokens), nil)
	segments := array.NewUint16Builder(memory.DefaultAllocator)
	segments.AppendValues(make([]uint16, run.tokens), nil)
	schema := arrow.NewSchema([]arrow.Field{{Name: "input_ids", Type: arrow.PrimitiveTypes.Int32},
		{Name: "segment_ids", Type: arrow.PrimitiveTypes.Uint16}}, nil)
	record := array.NewRecord(schema, []arrow.Array{ids.NewArray(), segments.NewArray()}, int64(run.tokens))
	s := grpc.NewServer()
	flight.RegisterFlightServiceServer(s, &plainServer{record: record})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	b.Cleanup(func() { s.Stop(); <-ended })
	return l.Addr().String()
}

// discard is a client codec that does not decode batches.
type discard struct{ encoding.CodecV2 }

func (d discard) Unmarshal(b mem.BufferSlice, v any) error {
	if _, ok := v.(*flight.FlightData); ok {
		return nil
	}
	return d.CodecV2.Unmarshal(b, v)
}

// readRaw transfers n blocks of a size over a loopback socket, to measure the upper bound of this machine.
func readRaw(b *testing.B, size, n int) time.Duration {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		block := make([]byte, size)
		for range n {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	start, block := time.Now(), make([]byte, size)
	for range n {
		if _, err := io.ReadFull(c, block); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}

// BenchmarkThroughput reports MB/s of one stream. of_raw is its fraction of a raw socket measured immediately
// afterwards.
func BenchmarkThroughput(b *testing.B) {
	for _, size := range []int{1 << 20, 2 << 20} {
		run := newBenchRun(size)
		size = run.tokens * 6
		ours, plain := serve(b, run).Addr().String(), servePlain(b, run)
		codec := encoding.GetCodecV2(proto.Name)
		for _, way := range []struct {
			name, address string
			codec         encoding.CodecV2
		}{
			{"discarding", ours, discard{codec}}, {"discarding-from-plain-server", plain, discard{codec}},
			{"client", ours, codec}, {"client-of-plain-server", plain, codec},
		} {
			b.Run(fmt.Sprintf("%dMiB/%s", (size+1<<19)>>20, way.name), func(b *testing.B) {
				c, err := flight.NewClientWithMiddleware(way.address, nil, nil,
					grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithDefaultCallOptions(grpc.ForceCodecV2(way.codec)), grpc.WithReadBufferSize(256<<10),
					grpc.WithInitialWindowSize(16<<20), grpc.WithInitialConnWindowSize(16<<20))
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				stream, err := c.DoGet(ctx, &flight.Ticket{Ticket: []byte("{}")})
				if err != nil {
					b.Fatal(err)
				}
				receive := func() {
					if _, err := stream.Recv(); err != nil {
						b.Fatal(err)
					}
				}
				receive() // the schema
				b.SetBytes(int64(size))
				b.ResetTimer()
				for range b.N {
					receive()
				}
				b.StopTimer()
				cancel()
				if b.N > 1 {
					b.ReportMetric(float64(readRaw(b, size, b.N))/float64(b.Elapsed()), "of_raw")
				}
			})
		}
	}
}

// BenchmarkNextBatch reports the wait for a batch, on an open stream and with one call per batch.
func BenchmarkNextBatch(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20} {
		run := newBenchRun(size)
		c := dial(b, serve(b, run))
		b.Run(fmt.Sprintf("%dKiB/open-stream", size>>10), func(b *testing.B) {
			r, cancel, err := get(b, c, `{}`)
			if err != nil {
				b.Fatal(err)
			}
			defer cancel()
			waits(b, func() bool { return r.Next() })
		})
		b.Run(fmt.Sprintf("%dKiB/call-per-batch", size>>10), func(b *testing.B) {
			waits(b, func() bool {
				stream, err := c.DoGet(context.Background(), &flight.Ticket{Ticket: []byte(`{"steps":1}`)})
				if err != nil {
					b.Fatal(err)
				}
				r, err := flight.NewRecordReader(stream)
				if err != nil {
					b.Fatal(err)
				}
				defer r.Release()
				return r.Next() && !r.Next()
			})
		})
	}
}

func waits(b *testing.B, next func() bool) {
	took := make([]time.Duration, b.N)
	b.ResetTimer()
	for i := range took {
		start := time.Now()
		if !next() {
			b.Fatal("the stream ended")
		}
		took[i] = time.Since(start)
	}
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50_us")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99_us")
}

// BenchmarkAction_Consumed reports the cost of a consumption report, compared with the batch of a small step.
func BenchmarkAction_Consumed(b *testing.B) {
	s := serve(b, newFake(2, 2, 16))
	c := dial(b, s)
	body := `{"rank":1,"world":2,"session":"` + strings.Repeat("5e", 16) + `","taken":35,"waiting":true,"still":0.5}`
	for b.Loop() {
		if _, err := act(c, "consumed", body); err != nil {
			b.Fatal(err)
		}
	}
}
