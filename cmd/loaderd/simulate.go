package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"loaderd/internal/simulation"
	"loaderd/packonline"
)

func newSimulateCmd() *cobra.Command {
	var packing packingFlags
	var input lengthsInput
	var placements string
	cmd := &cobra.Command{
		Use:   "simulate --method M (--length L | --buckets A,B,C) [flags] [FILE]",
		Short: "Pack a list of document lengths and report how well it went",
		Long: `Simulate packs documents of the given lengths exactly as a run would and reports padding, truncation, ages and speed.

It reads one length in tokens a line from FILE (or a column of FILE.parquet, or standard input without a FILE) and writes one JSON
object to standard output. Lengths count the end-of-document token. "seconds" covers packing alone, the final flush included.
Atoms that are a part of a row are merged into rows in the order in which they are packed.`,
		Example: `  # a million log-normal lengths
  loaderd gen-lengths --dist fineweb-edu > lengths
  loaderd simulate --method bfd --length 2048 lengths

  # the whole input at once, as an offline packer has it, with every sequence written out
  loaderd simulate --method bfd --length 2048 --pool 0 --placements rows.tsv lengths

  # lengths from a column of lists of tokens
  loaderd simulate --length 4096 --column input_ids corpus.parquet`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			packing.settle(cmd)
			if err := errors.Join(packing.check(cmd), input.check(args)); err != nil {
				return usageError{fmt.Errorf("simulate: %w", err)}
			}
			lengths, _, err := input.read(cmd.InOrStdin(), args)
			if err != nil {
				return fmt.Errorf("simulate: %w", err)
			}
			result, err := simulateTo(cmd.Context(), packing.config, lengths, placements)
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
	input.register(cmd)
	cmd.Flags().StringVar(&placements, "placements", "", "write every sequence to this `file`: LENGTH<TAB>document:start:length ...")
	cmd.MarkFlagsOneRequired("length", "buckets")
	return cmd
}

// simulateTo simulates and writes the sequences to the file named placements, if one is named.
func simulateTo(ctx context.Context, c packonline.Config, lengths []int32, placements string) (*simulation.Result, error) {
	if placements == "" {
		return simulation.Run(ctx, c, lengths, nil)
	}
	f, err := os.Create(placements)
	if err != nil {
		return nil, fmt.Errorf("write placements: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	result, err := simulation.Run(ctx, c, lengths, w)
	if err == nil {
		err = w.Flush()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return result, err
}
