package runcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"loaderd/internal/api"
	"loaderd/internal/cli/command"
	"loaderd/internal/flightclient"
	"loaderd/internal/ledger"
	"loaderd/tokenizer"
)

// NewLedgerCmd returns the command ledger.
func NewLedgerCmd() *cobra.Command {
	var client command.FlightClient
	var step uint64
	var spike spikeFlag
	var asked ledgerAsked
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ledger (--step N | --find ID | --sequence N | --spike A:B)",
		Short: "Show the contents of a step, or the steps of a document",
		Long: `Show the contents of a step: its rows and the spans of each row, as the plan
records them. A span has one of these forms:
  SEQUENCE:START+LENGTH          LENGTH tokens from START on, of the document
                                 with that sequence in the document stream
  SOURCE/SEQUENCE:START+LENGTH   the same in a run with several sources
  SEQUENCE#INDEX:START+LENGTH    a message with several documents: the document
                                 with that index, from 0, where it is known

A number in brackets after the span is the number of its tokens with a loss. It
is omitted if all tokens have one. With --documents the producer's id and the
path of every document are shown, while the stream contains the document. With
--text the text of every span is shown.

With --find or --sequence the command shows every row of the plan that contains
a part of a document. --find takes the producer's id, the path, the url, or the
name that publish gave the document. The name is the field "id" of a line, or
the path of a plain file as it was passed to publish. For a message with several
documents, --find takes the id of one document and shows only its spans.

With --spike the command compares the steps A to B, without B, with at most
1,000 steps before them: the share of each source, the lengths of spans, the
documents with the most tokens, and documents that begin repeatedly.`,
		Example: `  loaderd ledger --step 1200 --documents
  loaderd ledger --step 1200 --format json | jq '.rows[0]'
  loaderd ledger --step 1200 --documents --format parquet > step-1200.parquet
  loaderd ledger --step 1200 --text
  loaderd ledger --find corpus/7.txt
  loaderd ledger --spike 41200:41300`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				asked.format = "json"
			}
			write, ok := ledger.Formats[asked.format]
			if !ok {
				return command.Usage(fmt.Errorf("--format %s: want one of table, json, arrow, parquet", asked.format))
			}
			if asked.text && !write.HasTexts {
				return command.Usage(fmt.Errorf("--text --format %s: want table or json", asked.format))
			}
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			if spike.end > 0 {
				return asked.compare(ctx, &client, spike, out)
			}
			if cmd.Flags().Changed("step") {
				s, err := asked.step(ctx, &client, step)
				if err != nil {
					return err
				}
				return write.Step(out, s)
			}
			found, err := asked.find(ctx, &client)
			if err != nil {
				return err
			}
			return write.Found(out, found)
		},
	}
	client.Register(cmd)
	f := cmd.Flags()
	f.Var((*stepFlag)(&step), "step", "index of the `step`, from 0")
	f.Var(&spike, "spike", "compare the steps `A:B` with those before: from A, without B")
	f.StringVar(&asked.id, "find", "", "`id` of a document: the producer's id, its name in the file, or its path")
	f.Uint64Var(&asked.sequence, "sequence", 0, "stream `sequence` of a document")
	f.StringVar(&asked.source, "source", "", "with --sequence: `name` of the source, if the run has several")
	f.BoolVar(&asked.documents, "documents", false, "also show the origin of the documents: id, subject and path")
	f.BoolVar(&asked.text, "text", false,
		"also show the text of every span of a step: its tokens, decoded (table and json)")
	f.StringVar(&asked.tokenizer, "tokenizer", "",
		"with --text: `NAME|FILE` of the run's tokenizer, if it differs from the daemon's; for a rank file "+
			"see also --pattern")
	command.RegisterRankFile(f, &asked.options)
	f.StringVar(&asked.format, "format", "table",
		"`format`: table, json, arrow (IPC stream) or parquet; the last two have one row per span")
	f.BoolVar(&asJSON, "json", false, "print one JSON object, as --format json does")
	cmd.MarkFlagsMutuallyExclusive("json", "format")
	cmd.MarkFlagsOneRequired("step", "find", "sequence", "spike")
	cmd.MarkFlagsMutuallyExclusive("step", "find", "sequence", "spike")
	cmd.MarkFlagsMutuallyExclusive("text", "spike")
	cmd.MarkFlagsMutuallyExclusive("text", "find")
	cmd.MarkFlagsMutuallyExclusive("source", "step")
	cmd.MarkFlagsMutuallyExclusive("source", "find")
	cmd.MarkFlagsMutuallyExclusive("text", "sequence")
	return cmd
}

// ledgerAsked is a query of the ledger.
type ledgerAsked struct {
	id        string
	sequence  uint64
	source    string
	documents bool
	text      bool
	tokenizer string
	options   tokenizer.Options // of a rank file
	format    string
}

// step requests a step, with the texts of its pieces if the query includes them.
func (a ledgerAsked) step(ctx context.Context, client *command.FlightClient, step uint64) (s ledger.Step, err error) {
	err = client.Ask(ctx, "ledger", func(c *flightclient.Client) (err error) {
		s, err = ledger.ReadStep(ctx, c, client.Run, step, a.documents || a.text)
		return err
	})
	if err == nil && a.text {
		err = a.readTexts(ctx, client, &s)
	}
	return s, err
}

func (a ledgerAsked) find(ctx context.Context, client *command.FlightClient) (found []api.FoundRow, err error) {
	err = client.Ask(ctx, "find", func(c *flightclient.Client) (err error) {
		if a.id != "" {
			found, err = c.FindID(ctx, client.Run, a.id)
		} else {
			found, err = c.FindSequence(ctx, client.Run, a.source, a.sequence)
		}
		return err
	})
	return found, err
}

// compare writes the comparison of steps with the ones before.
func (a ledgerAsked) compare(ctx context.Context, client *command.FlightClient, steps spikeFlag, w io.Writer) error {
	if a.format != "table" && a.format != "json" {
		return command.Usage(fmt.Errorf("--spike --format %s: want table or json", a.format))
	}
	var s ledger.Spike
	err := client.Ask(ctx, "ledger", func(c *flightclient.Client) (err error) {
		s, err = ledger.ReadSpike(ctx, c, client.Run, steps.begin, steps.end)
		return err
	})
	if err != nil {
		return err
	}
	return s.Write(w, a.format)
}

// spikeFlag is the value of a flag for a range of steps.
type spikeFlag struct{ begin, end uint64 }

func (s *spikeFlag) Set(value string) error {
	begin, end, _ := strings.Cut(value, ":")
	var first, last stepFlag
	if first.Set(begin) != nil || last.Set(end) != nil {
		return errors.New("want A:B, the first step and the one after the last")
	}
	s.begin, s.end = uint64(first), uint64(last)
	return ledger.CheckSpike(s.begin, s.end)
}

func (s *spikeFlag) String() string { return "" }

func (s *spikeFlag) Type() string { return "A:B" }

// stepFlag is the value of a flag for a step's index.
type stepFlag uint64

func (s *stepFlag) Set(value string) error {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return errors.New("want the index of a step, 0 or more")
	}
	*s = stepFlag(n)
	return nil
}

func (s *stepFlag) String() string { return "" }

func (s *stepFlag) Type() string { return "step" }
