package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"loaderd/internal/documents"
	"loaderd/internal/simulation"
	"loaderd/packonline"
	"loaderd/packonline/related"
)

func newSimulateCmd() *cobra.Command {
	var packing packingFlags
	var input lengthsInput
	var whole documentsInput
	var placements string
	cmd := &cobra.Command{
		Use:   "simulate --method M (--length L | --buckets A,B,C) [flags] [FILE]",
		Short: "Pack a list of document lengths and report how well it went",
		Long: `Simulate packs documents of the given lengths exactly as a run would and reports padding, truncation, ages and speed.

It reads one length in tokens a line from FILE (or a column of FILE.parquet, or standard input without a FILE) and writes one JSON
object to standard output. Lengths count the end-of-document token. "seconds" covers packing alone, the final flush included.
Atoms that are a part of a row are merged into rows in the order in which they are packed.

Method splice packs documents that have to do with one another and reads them whole, as does any method with --documents: JSON lines with
"text", or "ids" of tokens, and optionally "path" and "embedding" (a list of numbers).`,
		Example: `  # a million log-normal lengths
  loaderd gen-lengths --dist fineweb-edu > lengths
  loaderd simulate --method bfd --length 2048 lengths

  # the whole input at once, as an offline packer has it, with every sequence written out
  loaderd simulate --method bfd --length 2048 --pool 0 --placements rows.tsv lengths

  # lengths from a column of lists of tokens
  loaderd simulate --length 4096 --column input_ids corpus.parquet

  # related documents in one row
  loaderd simulate --method splice --length 8192 --retriever repo documents.jsonl`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			packing.settle(cmd)
			whole.on = whole.on || packing.config.Related() != nil
			err := packing.check(cmd)
			if !whole.on {
				err = errors.Join(err, input.check(args))
			} else if input.column != "" {
				err = errors.Join(err, errors.New("--column: want lengths, not documents"))
			}
			if err != nil {
				return usageError{fmt.Errorf("simulate: %w", err)}
			}
			var lengths []int32
			var hints []*related.Hint
			if whole.on {
				var set *documents.Set
				if set, _, err = whole.read(cmd.InOrStdin(), args); err == nil {
					lengths = set.Lengths()
					hints, err = documentHints(cmd, set, &packing.config)
				}
			} else {
				lengths, _, err = input.read(cmd.InOrStdin(), args)
			}
			if err != nil {
				return fmt.Errorf("simulate: %w", err)
			}
			result, err := simulateTo(cmd.Context(), packing.config, lengths, hints, packing.short(), placements)
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
	packing.register(cmd)
	packing.registerMethod(cmd)
	packing.registerSplice(cmd)
	input.register(cmd)
	whole.register(cmd, "\"text\" or \"ids\", and optionally \"path\" and \"embedding\"")
	cmd.Flags().StringVar(&whole.tokenizer, "tokenizer", "gpt2", "of documents' text: gpt2, cl100k_base, o200k_base or a tokenizer.json `file`")
	cmd.Flags().StringVar(&placements, "placements", "", "write every sequence to this `file`: LENGTH<TAB>document:start:length ...")
	cmd.MarkFlagsOneRequired("length", "buckets")
	return cmd
}

// simulateTo simulates and writes the sequences to the file named placements, if one is named.
func simulateTo(ctx context.Context, c packonline.Config, lengths []int32, hints []*related.Hint, below int, placements string) (*simulation.Result, error) {
	if placements == "" {
		return simulation.RunDocuments(ctx, c, lengths, hints, below, nil)
	}
	f, err := os.Create(placements)
	if err != nil {
		return nil, fmt.Errorf("write placements: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	result, err := simulation.RunDocuments(ctx, c, lengths, hints, below, simulation.Lines(w))
	if err == nil {
		err = w.Flush()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return result, err
}
