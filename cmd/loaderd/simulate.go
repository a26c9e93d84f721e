package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loaderd/packonline"
)

// simulation is the result of packing a list of lengths. tokens + repeated - dropped + padding = slots. Other programs read it:
// fields may be added, and none may change its name or meaning.
type simulation struct {
	Method             string           `json:"method"`
	Documents          int64            `json:"documents"`
	Tokens             int64            `json:"tokens"`
	Sequences          int64            `json:"sequences"`
	Slots              int64            `json:"slots"`
	PaddingTokens      int64            `json:"padding_tokens"`
	DroppedTokens      int64            `json:"dropped_tokens"`
	RepeatedTokens     int64            `json:"repeated_tokens"`
	TruncatedDocuments int64            `json:"truncated_documents"`
	PaddingRatio       float64          `json:"padding_ratio"`       // padding tokens / slots
	TruncationRatio    float64          `json:"truncation_ratio"`    // truncated documents / documents
	ConcatenationRatio float64          `json:"concatenation_ratio"` // documents / sequences
	AgeMax             uint32           `json:"age_max"`             // documents, from a document's arrival to the emission of its last piece
	AgeMedian          uint32           `json:"age_median"`          // over all documents; the lower one of two
	PoolMax            int              `json:"pool_max"`            // pieces that waited at once
	Seconds            float64          `json:"seconds"`             // of packing alone
	DocumentsPerSecond float64          `json:"documents_per_second"`
	Buckets            []bucketCount    `json:"buckets"`
	Detail             simulationDetail `json:"detail"`
}

type bucketCount struct {
	Length    int   `json:"length"`
	Sequences int64 `json:"sequences"`
}

// simulationDetail says under which bounds the method ran and what the end of the input cost: the flush pads the most.
type simulationDetail struct {
	Pool               int    `json:"pool"`
	MaxAge             int    `json:"max_age"`
	Seed               uint64 `json:"seed"`
	FlushPieces        int    `json:"flush_pieces"`
	FlushSequences     int64  `json:"flush_sequences"`
	FlushPaddingTokens int64  `json:"flush_padding_tokens"`
}

func newSimulateCmd() *cobra.Command {
	var c packonline.Config
	var length int
	var placements string
	cmd := &cobra.Command{
		Use:   "simulate --method M (--length L | --buckets A,B,C) [flags] [FILE]",
		Short: "Pack a list of document lengths and report how well it went",
		Long: `Simulate packs documents of the given lengths exactly as a run would and reports padding, truncation, ages and speed.

It reads one length in tokens a line from FILE, or from standard input without one, and writes one JSON object to standard
output. Lengths count the end-of-document token. "seconds" covers packing alone, the final flush included.`,
		Example: `  # a million log-normal lengths
  awk 'BEGIN{srand(1);for(i=0;i<1000000;i++)print int(exp(6.363+1.0235*sqrt(-2*log(1-rand()))*cos(6.283185307*rand())))+1}' > lengths
  loaderd simulate --method bfd --length 2048 lengths

  # the whole input at once, as an offline packer has it, with every sequence written out
  loaderd simulate --method bfd --length 2048 --pool 0 --placements rows.tsv lengths`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if length != 0 || len(c.Buckets) == 0 {
				c.Buckets = []int{length}
			}
			whole := c.Pool == 0
			if whole {
				c.Pool = 1 // until the input is known
				if !cmd.Flags().Changed("max-age") {
					c.MaxAge = 0
				}
			}
			if err := checkSimulation(c); err != nil {
				return usageError{fmt.Errorf("simulate: %w", err)}
			}
			lengths, err := openLengths(cmd.InOrStdin(), args)
			if err != nil {
				return fmt.Errorf("simulate: %w", err)
			}
			if whole {
				c.Pool = max(len(lengths), 1)
			}
			result, err := simulateTo(cmd.Context(), c, lengths, placements)
			if err != nil {
				return fmt.Errorf("simulate: %w", err)
			}
			out, err := json.Marshal(result)
			if err != nil {
				return fmt.Errorf("simulate: %w", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", out)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Method, "method", "bfd", "packing method: "+strings.Join(packonline.Methods(), " or "))
	f.IntVar(&length, "length", 0, "row length in tokens")
	f.IntSliceVar(&c.Buckets, "buckets", nil, "row lengths in tokens, ascending")
	f.IntVar(&c.Pool, "pool", 4096, "pieces that may wait; 0 is the whole input, without a bound on ages unless --max-age is given")
	f.IntVar(&c.MaxAge, "max-age", 16384, "documents that may arrive while one waits; 0 is no bound")
	f.Uint64Var(&c.Seed, "seed", 0, "key of the method's random draws")
	f.StringVar(&placements, "placements", "", "write every sequence to this `file`: LENGTH<TAB>document:start:length ...")
	cmd.MarkFlagsMutuallyExclusive("length", "buckets")
	cmd.MarkFlagsOneRequired("length", "buckets")
	return cmd
}

// checkSimulation names every bad setting. Here a pool may be as large as the input, which is 0.
func checkSimulation(c packonline.Config) error {
	var bad []error
	for _, e := range c.Validate() {
		if e.Field == "pool" {
			e.Want = "0 (the whole input) or " + e.Want
		}
		bad = append(bad, e)
	}
	return errors.Join(bad...)
}

// openLengths reads the lengths of the file that args name, or of stdin.
func openLengths(stdin io.Reader, args []string) ([]int32, error) {
	if len(args) == 0 || args[0] == "-" {
		return readLengths(stdin, "standard input")
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, fmt.Errorf("read lengths: %w", err)
	}
	defer f.Close()
	return readLengths(f, args[0])
}

// readLengths reads one length of 1 to 2^31-1 a line. Spaces around it are fine.
func readLengths(in io.Reader, name string) ([]int32, error) {
	var out []int32
	r := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) == 0 && err == io.EOF {
			return out, nil
		}
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && err != io.EOF && !tooLong {
			return nil, fmt.Errorf("read lengths: %s: %w", name, err)
		}
		n, ok := parseLength(line)
		if !ok || tooLong {
			return nil, fmt.Errorf("read lengths: %s:%d: %.40q: want a length in tokens, 1 to %d", name, len(out)+1, bytes.TrimRight(line, "\r\n"), math.MaxInt32)
		}
		out = append(out, n)
	}
}

func parseLength(line []byte) (int32, bool) {
	line = bytes.TrimSpace(line)
	var n int64
	for _, c := range line {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = n*10 + int64(c-'0'); n > math.MaxInt32 {
			return 0, false
		}
	}
	return int32(n), n > 0
}

// simulateTo simulates and writes the sequences to the file named placements, if one is named.
func simulateTo(ctx context.Context, c packonline.Config, lengths []int32, placements string) (*simulation, error) {
	if placements == "" {
		return simulate(ctx, c, lengths, nil)
	}
	f, err := os.Create(placements)
	if err != nil {
		return nil, fmt.Errorf("write placements: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	result, err := simulate(ctx, c, lengths, w)
	if err == nil {
		err = w.Flush()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return result, err
}

// simulate packs documents of the given lengths and writes the sequences to placements, which may be nil. Documents are numbered
// from 0. The clock runs while lengths are packed, not while results are looked at.
func simulate(ctx context.Context, c packonline.Config, lengths []int32, placements io.Writer) (*simulation, error) {
	p, err := packonline.New(c)
	if err != nil {
		return nil, err
	}
	s := &simulation{Method: c.Method, Detail: simulationDetail{Pool: c.Pool, MaxAge: c.MaxAge, Seed: c.Seed}}
	for _, l := range c.Buckets {
		s.Buckets = append(s.Buckets, bucketCount{Length: l})
	}
	ages := make([]uint32, len(lengths))
	var out packonline.Rows
	var packing time.Duration
	const batch = 4096
	for first := 0; first < len(lengths); first += batch {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Now()
		for i, n := range lengths[first:min(first+batch, len(lengths))] {
			p.Add(packonline.Doc{Seq: uint64(first + i), Length: n}, &out)
			s.PoolMax = max(s.PoolMax, p.Pending().Pieces)
		}
		packing += time.Since(start)
		if err := s.take(&out, ages, placements); err != nil {
			return nil, err
		}
	}
	before := p.Counts()
	s.Detail.FlushPieces = p.Pending().Pieces
	start := time.Now()
	p.Flush(&out)
	packing += time.Since(start)
	if err := s.take(&out, ages, placements); err != nil {
		return nil, err
	}
	s.sum(p.Counts(), packing)
	s.Detail.FlushSequences = s.Sequences - before.Rows
	s.Detail.FlushPaddingTokens = s.PaddingTokens - before.Padding
	s.AgeMax, s.AgeMedian = maxMedian(ages)
	return s, nil
}

// take looks at the rows that came out and forgets them.
func (s *simulation) take(out *packonline.Rows, ages []uint32, placements io.Writer) error {
	defer out.Reset()
	var line []byte
	for i := range out.Len() {
		length, pieces, pieceAges := out.Row(i)
		for k := range s.Buckets {
			if s.Buckets[k].Length == int(length) {
				s.Buckets[k].Sequences++
			}
		}
		for k, x := range pieces {
			ages[x.Doc] = max(ages[x.Doc], pieceAges[k])
		}
		if placements == nil {
			continue
		}
		line = strconv.AppendInt(line[:0], int64(length), 10)
		separator := byte('\t')
		for _, x := range pieces {
			line = strconv.AppendUint(append(line, separator), x.Doc, 10)
			line = strconv.AppendInt(append(line, ':'), int64(x.Start), 10)
			line = strconv.AppendInt(append(line, ':'), int64(x.Length), 10)
			separator = ' '
		}
		if _, err := placements.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("write placements: %w", err)
		}
	}
	return nil
}

// sum fills in the totals and the papers' ratios.
func (s *simulation) sum(c packonline.Counts, packing time.Duration) {
	s.Documents, s.Tokens, s.Sequences, s.Slots = c.Documents, c.Tokens, c.Rows, c.Slots
	s.PaddingTokens, s.DroppedTokens, s.RepeatedTokens, s.TruncatedDocuments = c.Padding, c.Dropped, c.Repeated, c.Truncated
	s.PaddingRatio = ratio(float64(c.Padding), float64(c.Slots))
	s.TruncationRatio = ratio(float64(c.Truncated), float64(c.Documents))
	s.ConcatenationRatio = ratio(float64(c.Documents), float64(c.Rows))
	s.Seconds = packing.Seconds()
	s.DocumentsPerSecond = ratio(float64(c.Documents), s.Seconds)
}

// ratio is a/b, or 0 where there is no b.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// maxMedian returns the largest number and the lower median, 0 for none.
func maxMedian(numbers []uint32) (most, median uint32) {
	for _, n := range numbers {
		most = max(most, n)
	}
	count := make([]uint32, int(most)+1)
	for _, n := range numbers {
		count[n]++
	}
	left := (len(numbers) - 1) / 2
	for n, k := range count {
		if left -= int(k); left < 0 {
			return most, uint32(n)
		}
	}
	return most, 0
}
