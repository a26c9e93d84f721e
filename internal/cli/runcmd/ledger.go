package runcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"

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
	var asked ledgerAsked
	cmd := &cobra.Command{
		Use:   "ledger (--step N | --find ID | --sequence N)",
		Short: "Show exactly what was in a step, or in which steps a document was",
		Long: `Show exactly what was in a step: its rows, and the pieces of documents that make each row, as the plan records them. A piece is
SEQUENCE:START+LENGTH: LENGTH tokens from START on of the document with that sequence in the document stream; of a run with several
sources it is SOURCE/SEQUENCE:START+LENGTH. Of a message that holds several documents it is SEQUENCE#INDEX:START+LENGTH, where the documents are known:
tokens of the document with that index, from 0, in the message. Behind it in brackets stands how many of its tokens have a loss, where not all do. With --documents the producer's id and the path of every document come along, as long as the stream holds it. With --text the text of every piece comes too.

With --find or --sequence: every row of the plan that holds a part of a document. --find takes the producer's id, the name that publish
gave it (the field "id" of a line, the path of a plain file as it was given to publish), or its path or url; of a message with several documents
the id of one of them, whose pieces alone are shown.`,
		Example: `  loaderd ledger --step 1200 --documents
  loaderd ledger --step 1200 --format json | jq '.rows[0]'
  loaderd ledger --step 1200 --documents --format parquet > step-1200.parquet
  loaderd ledger --step 1200 --text
  loaderd ledger --find corpus/7.txt`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := ledger.Formats[asked.format]
			if !ok {
				return command.Usage(fmt.Errorf("--format %s: want one of table, json, arrow, parquet", asked.format))
			}
			if asked.text && !write.HasTexts {
				return command.Usage(fmt.Errorf("--text --format %s: want table or json", asked.format))
			}
			ctx, out := cmd.Context(), cmd.OutOrStdout()
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
	f.Var((*stepFlag)(&step), "step", "index of the `step`, from 0 on")
	f.StringVar(&asked.id, "find", "", "the `id` of a document: the producer's, or what the file calls it, or its path")
	f.Uint64Var(&asked.sequence, "sequence", 0, "`sequence` of a document in the stream")
	f.StringVar(&asked.source, "source", "", "with --sequence: the `name` of the source, of a run with several")
	f.BoolVar(&asked.documents, "documents", false, "also where the documents came from: id, subject and path")
	f.BoolVar(&asked.text, "text", false, "also the text of every piece of a step: its tokens, decoded (table and json)")
	f.StringVar(&asked.tokenizer, "tokenizer", "",
		"with --text: the run's tokenizer, where its `NAME|FILE` is another here than at the daemon; for a rank file see "+
			"also --pattern")
	command.RegisterRankFile(f, &asked.options)
	f.StringVar(&asked.format, "format", "table",
		"`format`: table, json, arrow (IPC stream) or parquet; the last two have one row a piece")
	cmd.MarkFlagsOneRequired("step", "find", "sequence")
	cmd.MarkFlagsMutuallyExclusive("step", "find", "sequence")
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

// stepFlag is the value of a flag for a step's index.
type stepFlag uint64

func (s *stepFlag) Set(value string) error {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return errors.New("want the index of a step, from 0 on")
	}
	*s = stepFlag(n)
	return nil
}

func (s *stepFlag) String() string { return "" }

func (s *stepFlag) Type() string { return "step" }
