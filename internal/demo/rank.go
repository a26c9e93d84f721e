package demo

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"loaderd/internal/api"
	"loaderd/internal/flightclient"
)

// RankCommand is the name of the command that runs RankOptions.Run. It is not shown in help.
const RankCommand = "demo-rank"

// RankOptions describe a reader.
type RankOptions struct {
	URI     string // of the daemon's Flight server
	DataDir string // data folder of the daemon, for its token
	Rank    int
	World   int
	Step    uint64 // first step
}

// stepShare is one rank's part of a step, or the end of its stream. A rank writes one as a line of JSON per step.
type stepShare struct {
	Rank   int      `json:"rank"`
	End    bool     `json:"end,omitempty"`
	Step   uint64   `json:"step"`
	Bucket int      `json:"bucket"`
	Rows   []digest `json:"rows"`
	Tokens int64    `json:"tokens"` // counted, without padding
}

// digest is the SHA-256 hash of a row's input_ids and segment_ids, in hexadecimal.
type digest string

// How a rank connects again to a daemon that does not answer. StepLoader also waits for a daemon that restarts.
const (
	reconnectInterval = 100 * time.Millisecond
	reconnectTimeout  = time.Minute
)

// errJobStopped reports that the standard input of a rank has ended.
var errJobStopped = errors.New("the job has stopped")

// Run reads one rank's batches to the end of the run, as the process of a training job does. It writes its share of
// every step to w, and continues after it has read a byte from r. If the daemon ends, it reconnects and continues with
// the step that it needs.
func (o RankOptions) Run(ctx context.Context, r io.Reader, w io.Writer) error {
	release, out := bufio.NewReader(r), json.NewEncoder(w) // a byte lets the rank continue
	next := o.Step
	report := func(s stepShare) error {
		if err := out.Encode(s); err != nil {
			return fmt.Errorf("report step %d: %w", s.Step, err)
		}
		if _, err := release.ReadByte(); err != nil {
			return errJobStopped
		}
		next = s.Step + 1
		return nil
	}
	lost := time.Time{} // since when the daemon has not answered
	for {
		before := next
		err := o.read(ctx, next, report)
		if err == nil {
			err = report(stepShare{Rank: o.Rank, End: true})
		}
		if err == nil || errors.Is(err, errJobStopped) {
			return nil
		}
		if next > before || lost.IsZero() {
			lost = time.Now()
		}
		if status.Code(errors.Unwrap(err)) != codes.Unavailable || time.Since(lost) > reconnectTimeout {
			return err
		}
		select {
		case <-time.After(reconnectInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// read reads the rank's batches from a step on, and reports each step after its last part.
func (o RankOptions) read(ctx context.Context, from uint64, report func(stepShare) error) error {
	// A new client connects at once. An old one waits longer after each failure.
	client, err := flightclient.Open(o.URI, flightclient.Options{Reuse: true, Report: true, DataDir: o.DataDir})
	if err != nil {
		return err
	}
	defer client.Close()
	s, parts := stepShare{Rank: o.Rank}, 0
	err = client.Read(ctx, api.Ticket{Rank: o.Rank, World: o.World, Step: from}, func(b flightclient.Batch) error {
		if b.Meta.Part != parts || parts > 0 && (b.Meta.Step != s.Step || b.L != s.Bucket) {
			return fmt.Errorf("rank %d: got part %d of step %d, with rows of %d tokens, want part %d of step %d", o.Rank,
				b.Meta.Part, b.Meta.Step, b.L, parts, s.Step)
		}
		rows, tokens := digests(b)
		if tokens != b.Meta.Tokens {
			return fmt.Errorf("rank %d: step %d has %d tokens, its metadata states %d", o.Rank, b.Meta.Step, tokens,
				b.Meta.Tokens)
		}
		s.Step, s.Bucket, parts = b.Meta.Step, b.L, parts+1
		s.Rows, s.Tokens = append(s.Rows, rows...), s.Tokens+tokens
		if parts < b.Meta.Parts {
			return nil
		}
		done := s
		s, parts = stepShare{Rank: o.Rank}, 0
		return report(done)
	})
	if err == nil && parts > 0 {
		return fmt.Errorf("rank %d: the run ended within step %d", o.Rank, s.Step)
	}
	return err
}

// digests returns the digest of every row, and the number of tokens that are not padding.
func digests(b flightclient.Batch) (rows []digest, tokens int64) {
	for _, segment := range b.SegmentIDs {
		if segment > 0 {
			tokens++
		}
	}
	for i := range b.Rows {
		h := sha256.New()
		_, _ = h.Write(arrow.Int32Traits.CastToBytes(b.InputIDs[i*b.L : (i+1)*b.L])) // never fails
		_, _ = h.Write(arrow.Uint16Traits.CastToBytes(b.SegmentIDs[i*b.L : (i+1)*b.L]))
		rows = append(rows, digest(hex.EncodeToString(h.Sum(nil))))
	}
	return rows, tokens
}

// bytesPerToken is the size of a token's id and segment id in a batch.
const bytesPerToken = 4 + 2
