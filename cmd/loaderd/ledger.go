package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func newLedgerCmd() *cobra.Command {
	var client flightClient
	var step uint64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ledger --step N",
		Short: "Show exactly what was in a step",
		Long: `Show exactly what was in a step: its rows, and the pieces of documents that make each row, as the plan records them. A piece is
SEQUENCE:START+LENGTH: LENGTH tokens from START on of the document with that sequence in the document stream.`,
		Example: `  loaderd ledger --step 1200
  loaderd ledger --step 1200 --json | jq '.rows[0]'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var whole ledgerStep
			err := client.action(cmd.Context(), "ledger", map[string]any{"step": step}, func(b []byte) error {
				rows := whole.Rows
				whole.Rows = nil
				if err := json.Unmarshal(b, &whole); err != nil {
					return fmt.Errorf("decode the daemon's answer: %w", err)
				}
				whole.Rows = append(rows, whole.Rows...)
				return nil
			})
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(whole)
			}
			return whole.table(cmd.OutOrStdout())
		},
	}
	client.register(cmd)
	cmd.Flags().Var((*stepFlag)(&step), "step", "index of the `step`, from 0 on")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	_ = cmd.MarkFlagRequired("step")
	return cmd
}

// stepFlag is an index of a step.
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

// ledgerStep is a step as the ledger action tells it.
type ledgerStep struct {
	Run    string          `json:"run"`
	Step   uint64          `json:"step"`
	Bucket int             `json:"bucket"`
	Cursor uint64          `json:"cursor"`
	Rows   [][]ledgerPiece `json:"rows"`
}

type ledgerPiece struct {
	Sequence uint64 `json:"sequence"`
	Start    int    `json:"start"`
	Length   int    `json:"length"`
}

func (s ledgerStep) table(w io.Writer) error {
	pieces, tokens := 0, 0
	documents := map[uint64]bool{}
	for _, row := range s.Rows {
		for _, p := range row {
			pieces++
			tokens += p.Length
			documents[p.Sequence] = true
		}
	}
	slots := len(s.Rows) * s.Bucket
	fmt.Fprintf(w, "run %s step %d: %d rows of %d tokens, %d pieces of %d documents, %d tokens, %d padding (%.3f %%); planned behind document %d\n\n",
		s.Run, s.Step, len(s.Rows), s.Bucket, pieces, len(documents), tokens, slots-tokens, 100*float64(slots-tokens)/float64(max(slots, 1)), s.Cursor)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "row\ttokens\tpieces")
	for i, row := range s.Rows {
		n := 0
		for _, p := range row {
			n += p.Length
		}
		fmt.Fprintf(t, "%d\t%d\t", i, n)
		for _, p := range row {
			fmt.Fprintf(t, "%d:%d+%d ", p.Sequence, p.Start, p.Length)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
