// Command flightserve serves prebuilt batches over Flight, so that a client can be measured without a run. It also
// serves the same number of bytes over a raw socket, as the baseline of the machine.
//
//	bin/flightserve -rows 128 -bucket 2048
//	python bench/python/flight_read.py --address 127.0.0.1:8815 --raw 127.0.0.1:8816
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"

	"loaderd/arrowout"
	"loaderd/loader"
	"loaderd/loader/assembly"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/packonline"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("flightserve", flag.ContinueOnError)
	flags.SetOutput(stderr)
	cfg := arrowout.Default()
	flags.StringVar(&cfg.Listen, "listen", cfg.Listen, "address of the Flight server")
	flags.IntVar(&cfg.BatchBytes, "batch-bytes", cfg.BatchBytes, "largest batch in bytes")
	raw := flags.String("raw", "127.0.0.1:8816",
		"address of the raw socket: takes a byte count (uint64, little-endian), sends that many bytes")
	rows := flags.Int("rows", 128, "rows of a step")
	bucket := flags.Int("bucket", 2048, "tokens of a row")
	end := flags.String("end", "", "reason that streams end with behind the last step; empty: normally")
	steps := flags.Uint64("steps", 1<<40, "steps of the run")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, cfg, *raw, newPrebuilt(*rows, *bucket, *steps, *end), stdout); err != nil {
		fmt.Fprintln(stderr, "flightserve:", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, cfg arrowout.Config, raw string, run *prebuilt, stdout io.Writer) error {
	s, err := arrowout.NewServer(cfg, run, slog.Default(), nil)
	if err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", raw)
	if err != nil {
		return err
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go sendRaw(c)
		}
	}()
	fmt.Fprintf(stdout, "flight %s raw %s\n", s.Addr(), l.Addr())
	<-ctx.Done()
	s.Shutdown(context.Background())
	return nil
}

// sendRaw sends the requested number of bytes.
func sendRaw(c net.Conn) {
	defer c.Close()
	var n uint64
	if binary.Read(c, binary.LittleEndian, &n) != nil {
		return
	}
	for block := make([]byte, 1<<20); n > 0; {
		k := min(n, uint64(len(block)))
		if _, err := c.Write(block[:k]); err != nil {
			return
		}
		n -= k
	}
}

// prebuilt is a run whose steps all hold the same rows, with their documents.
type prebuilt struct {
	info     loader.Info
	bucket   int
	pieces   [][]packonline.Piece
	contents map[uint64]document.Content
	end      fault.Reason
}

// pieceTokens is the length of every document except the last one of a row.
const pieceTokens = 512

func newPrebuilt(rows, bucket int, steps uint64, end string) *prebuilt {
	p := &prebuilt{end: fault.Reason(end), bucket: bucket, contents: map[uint64]document.Content{}}
	source := plan.SourceInfo{SourceBegin: plan.SourceBegin{Name: "docs"}}
	c := runconfig.Config{
		Attention: runconfig.AttentionDocument,
		Tokenizer: runconfig.Tokenizer{Name: "none", VocabSize: 50257, End: 50256, Pad: 50256},
		Packing:   packonline.Config{Method: "bucket", Buckets: []int{bucket}, Atom: 1},
		Steps:     runconfig.Steps{Rows: rows, Last: runconfig.LastDrop},
	}
	p.info = loader.Info{Run: "bench", Fingerprint: "bench", Planned: steps, Sources: []plan.SourceInfo{source},
		Config: c, Schedule: runconfig.NewSchedule(c)}
	for i := range rows {
		var row []packonline.Piece
		for from := 0; from < bucket; from += pieceTokens {
			first := i*bucket + from
			tokens := make([]int32, min(pieceTokens, bucket-from))
			for k := range tokens {
				tokens[k] = int32((first+k)*2654435761>>8) & 0x7fff
			}
			doc := uint64(first + 1)
			p.contents[doc] = document.Content{Tokens: tokens}
			row = append(row, packonline.Piece{Doc: doc, Length: int32(len(tokens))})
		}
		p.pieces = append(p.pieces, row)
	}
	return p
}

func (p *prebuilt) Info() loader.Info { return p.info }

func (p *prebuilt) JoinAs(_ context.Context, _ state.RankID, step uint64, _ state.Client) (arrowout.Reader, error) {
	return &place{p, step}, nil
}

func (p *prebuilt) Assemble(_ context.Context, s *plan.Step, first, n int) (*assembly.Batch, error) {
	return &assembly.Batch{Step: s.Index, Bucket: p.bucket, First: first, Rows: n, Pieces: s.Rows[first : first+n],
		Contents: p.contents}, nil
}

func (p *prebuilt) Step(_ context.Context, step uint64) (*plan.Step, error) {
	if step >= p.info.Planned {
		return nil, io.EOF
	}
	return &plan.Step{Index: step, Bucket: int32(p.bucket), Rows: p.pieces}, nil
}

func (p *prebuilt) RecordCommit(context.Context, planrecord.Commit) (uint64, error) { return 0, nil }
func (p *prebuilt) Leave(context.Context, string) (uint64, error)                   { return 0, nil }
func (p *prebuilt) Resize(context.Context, state.ResizeRequest) (state.ResizeResult, error) {
	return state.ResizeResult{}, nil
}
func (p *prebuilt) LookupDocument(context.Context, string) ([]uint64, error) { return nil, nil }
func (p *prebuilt) FindRows(context.Context, uint64, func(*plan.Step, int, []packonline.Piece) error) error {
	return nil
}
func (p *prebuilt) Describe(context.Context, uint64) (document.Info, error) {
	return document.Info{}, nil
}
func (p *prebuilt) ViewDocument(context.Context, uint64) (document.View, error) {
	return document.View{}, nil
}
func (p *prebuilt) NextDocuments(context.Context, string, int) ([]uint64, error) { return nil, nil }
func (p *prebuilt) SealBy(context.Context, string) (uint64, error)               { return 0, nil }
func (p *prebuilt) FlushBy(context.Context, string) (uint64, error)              { return 0, nil }
func (p *prebuilt) SealSource(context.Context, string, string) (uint64, error) {
	return 0, nil
}
func (p *prebuilt) ChangeSchedule(context.Context, state.ScheduleRequest) (uint64, error) {
	return 0, nil
}
func (p *prebuilt) Filter(context.Context, state.FilterRequest) (uint64, error) { return 0, nil }
func (p *prebuilt) Mix(context.Context, state.MixRequest) (state.MixResult, error) {
	return state.MixResult{}, nil
}
func (p *prebuilt) StreamStates(context.Context) ([]document.StreamState, error) { return nil, nil }
func (p *prebuilt) Checkpoint(context.Context) (uint64, error)                   { return 0, nil }
func (p *prebuilt) Stats() loader.Stats {
	return loader.Stats{Run: p.info.Run}
}
func (p *prebuilt) Cause(uint64) *fault.Error                                            { return nil }
func (p *prebuilt) SentSteps(_ context.Context, step uint64, _ func(string) bool) uint64 { return step }

func (p *prebuilt) RecordConsumption(state.RankID, state.Consumption) state.ConsumptionResponse {
	return state.ConsumptionResponse{}
}
func (p *prebuilt) Measure(context.Context) error { return nil }

type place struct {
	run  *prebuilt
	step uint64
}

func (p *place) Next(ctx context.Context) (*plan.Step, error) {
	s, err := p.run.Step(ctx, p.step)
	if err == io.EOF && p.run.end != "" {
		return nil, &fault.Error{Reason: p.run.end, Message: "the prebuilt steps end here",
			Facts: map[string]string{"step": fmt.Sprint(p.step)}}
	}
	p.step++
	return s, err
}

func (p *place) Dropped() <-chan error           { return nil }
func (p *place) AwaitRoom(context.Context) error { return nil }
func (p *place) Close()                          {}
