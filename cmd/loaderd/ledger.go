package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"loaderd/loader"
	"loaderd/tokenizer"
)

func newLedgerCmd() *cobra.Command {
	var client flightClient
	var step uint64
	var asked ledgerAsked
	cmd := &cobra.Command{
		Use:   "ledger (--step N | --find ID | --sequence N)",
		Short: "Show exactly what was in a step, or in which steps a document was",
		Long: `Show exactly what was in a step: its rows, and the pieces of documents that make each row, as the plan records them. A piece is
SEQUENCE:START+LENGTH: LENGTH tokens from START on of the document with that sequence in the document stream. With --documents the
producer's id and the path of every document come along, as long as the stream holds it. With --text the text of every piece comes too.

With --find or --sequence: every row of the plan that holds a part of a document. --find takes the producer's id, the name that publish
gave it (the field "id" of a line, the path of a plain file as it was given to publish), or its path or url.`,
		Example: `  loaderd ledger --step 1200 --documents
  loaderd ledger --step 1200 --format json | jq '.rows[0]'
  loaderd ledger --step 1200 --documents --format parquet > step-1200.parquet
  loaderd ledger --step 1200 --text
  loaderd ledger --find corpus/7.txt`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := ledgerFormats[asked.format]
			if !ok {
				return usageError{fmt.Errorf("--format %s: want one of table, json, arrow, parquet", asked.format)}
			}
			if asked.text && asked.format != "table" && asked.format != "json" {
				return usageError{fmt.Errorf("--text --format %s: want table or json", asked.format)}
			}
			asked.documents = asked.documents || asked.text
			out := cmd.OutOrStdout()
			if cmd.Flags().Changed("step") {
				whole, err := asked.step(cmd.Context(), &client, step)
				if err == nil && asked.text {
					err = asked.fillText(cmd.Context(), &client, &whole)
				}
				if err != nil {
					return err
				}
				return write.step(out, whole)
			}
			found, err := asked.find(cmd.Context(), &client)
			if err != nil {
				return err
			}
			return write.found(out, found)
		},
	}
	client.register(cmd)
	f := cmd.Flags()
	f.Var((*stepFlag)(&step), "step", "index of the `step`, from 0 on")
	f.StringVar(&asked.id, "find", "", "the `id` of a document: the producer's, or what the file calls it, or its path")
	f.Uint64Var(&asked.sequence, "sequence", 0, "`sequence` of a document in the stream")
	f.BoolVar(&asked.documents, "documents", false, "also where the documents came from: id, subject and path")
	f.BoolVar(&asked.text, "text", false, "also the text of every piece of a step: its tokens, decoded (table and json)")
	f.StringVar(&asked.tokenizer, "tokenizer", "", "with --text: the run's tokenizer, where its `NAME|FILE` is another here than at the daemon; for a rank file see also --pattern")
	registerRankFile(f, &asked.options)
	f.StringVar(&asked.format, "format", "table", "`format`: table, json, arrow (IPC stream) or parquet; the last two have one row a piece")
	cmd.MarkFlagsOneRequired("step", "find", "sequence")
	cmd.MarkFlagsMutuallyExclusive("step", "find", "sequence")
	cmd.MarkFlagsMutuallyExclusive("text", "find")
	cmd.MarkFlagsMutuallyExclusive("text", "sequence")
	return cmd
}

// ledgerAsked is what the ledger is asked for.
type ledgerAsked struct {
	id        string
	sequence  uint64
	documents bool
	text      bool
	tokenizer string
	options   tokenizer.Options // of a rank file
	format    string
}

// ledgerFormat writes answers in one format.
type ledgerFormat struct {
	step  func(io.Writer, ledgerStep) error
	found func(io.Writer, []ledgerFound) error
}

var ledgerFormats = map[string]ledgerFormat{
	"table":   {func(w io.Writer, s ledgerStep) error { return s.table(w) }, foundTable},
	"json":    {writeLedgerJSON[ledgerStep], writeLedgerJSON[[]ledgerFound]},
	"arrow":   {func(w io.Writer, s ledgerStep) error { return writeArrow(w, s.pieces()) }, func(w io.Writer, f []ledgerFound) error { return writeArrow(w, foundPieces(f)) }},
	"parquet": {func(w io.Writer, s ledgerStep) error { return writeParquet(w, s.pieces()) }, func(w io.Writer, f []ledgerFound) error { return writeParquet(w, foundPieces(f)) }},
}

func writeLedgerJSON[T any](w io.Writer, v T) error { return json.NewEncoder(w).Encode(v) }

// step asks for a step, which may come as several results.
func (a ledgerAsked) step(ctx context.Context, client *flightClient, step uint64) (ledgerStep, error) {
	var whole ledgerStep
	body := map[string]any{"step": step}
	if a.documents {
		body["documents"] = true
	}
	documents := map[uint64]loader.DocumentInfo{}
	err := client.action(ctx, "ledger", body, func(b []byte) error {
		rows := whole.Rows
		whole.Rows, whole.Documents = nil, nil
		if err := json.Unmarshal(b, &whole); err != nil {
			return fmt.Errorf("decode the daemon's answer: %w", err)
		}
		whole.Rows = append(rows, whole.Rows...)
		for _, d := range whole.Documents {
			documents[d.Sequence] = d
		}
		return nil
	})
	whole.Documents = nil
	for _, d := range documents {
		whole.Documents = append(whole.Documents, d)
	}
	slices.SortFunc(whole.Documents, func(a, b loader.DocumentInfo) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return whole, err
}

func (a ledgerAsked) find(ctx context.Context, client *flightClient) ([]ledgerFound, error) {
	body := map[string]any{"id": a.id}
	if a.id == "" {
		body = map[string]any{"sequence": a.sequence}
	}
	found := []ledgerFound{}
	err := client.action(ctx, "find", body, func(b []byte) error {
		var f ledgerFound
		if err := json.Unmarshal(b, &f); err != nil {
			return fmt.Errorf("decode the daemon's answer: %w", err)
		}
		found = append(found, f)
		return nil
	})
	return found, err
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
	Run       string                `json:"run"`
	Step      uint64                `json:"step"`
	Bucket    int                   `json:"bucket"`
	Cursor    uint64                `json:"cursor"`
	Rows      [][]ledgerPiece       `json:"rows"`
	Documents []loader.DocumentInfo `json:"documents,omitempty"`
}

type ledgerPiece struct {
	Sequence uint64 `json:"sequence"`
	Start    int    `json:"start"`
	Length   int    `json:"length"`

	Text *pieceText `json:"text,omitempty"`
}

func (p ledgerPiece) String() string { return fmt.Sprintf("%d:%d+%d", p.Sequence, p.Start, p.Length) }

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
			fmt.Fprint(t, p, " ")
		}
		fmt.Fprintln(t)
	}
	if s.hasText() {
		return errors.Join(t.Flush(), s.texts(w))
	}
	if len(s.Documents) > 0 {
		fmt.Fprint(t, "\ndocument\tsubject\tid\tpath\n")
		for _, d := range s.Documents {
			fmt.Fprintf(t, "%d\t%s\t%s\t%s\n", d.Sequence, d.Subject, d.ID, d.Path)
		}
	}
	return t.Flush()
}

// ledgerFound is a row that holds a part of a document, as the find action tells it.
type ledgerFound struct {
	Run    string        `json:"run"`
	Step   uint64        `json:"step"`
	Bucket int           `json:"bucket"`
	Row    int           `json:"row"`
	Pieces []ledgerPiece `json:"pieces"`
}

func foundTable(w io.Writer, found []ledgerFound) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "no step of the plan holds a document of that name")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "step\tbucket\trow\tpieces")
	for _, f := range found {
		var pieces []string
		for _, p := range f.Pieces {
			pieces = append(pieces, p.String())
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%s\n", f.Step, f.Bucket, f.Row, strings.Join(pieces, " "))
	}
	return t.Flush()
}
