// Package simulatecmd implements the commands simulate, compare and gen-lengths, which pack lengths and documents
// without a daemon.
package simulatecmd

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/documents"
	"loaderd/internal/simulation"
	"loaderd/packonline/similarity"
)

// NewSimulateCmd returns the command simulate.
func NewSimulateCmd() *cobra.Command {
	var packing packingFlags
	var input lengthsInput
	var whole documentsInput
	var sources sourcesInput
	var configuration command.ConfigFlags
	var placements string
	cmd := &cobra.Command{
		Use:   "simulate --method M (--length L | --buckets A,B,C) [flags] [FILE]",
		Short: "Pack document lengths and report the result",
		Long: `Pack documents of given lengths exactly as a run would, and report padding,
truncation, ages and speed.

The input has one length in tokens per line: FILE, a column of FILE.parquet, or
standard input without FILE. The output is one JSON object. Lengths include the
end-of-document token. "seconds" covers only packing, with the final flush.
Atoms that are a part of a row are merged into rows in the order in which they
are packed.

With --source, once per source, the command packs a mixture of sources as a run
does. Each source is a file and counts as sealed. Weights are shares of tokens.
-c FILE adds the sections sources and mix of a daemon's configuration
(schedules, splits, bounds on lengths). All rows have the lengths of the flags:
a file whose steps.schedule changes them is rejected. In the JSON, "sources"
shows for each source how its share followed its target, its padding, how long
its documents wait, and what was skipped.

Method splice packs related documents and needs complete documents, as does any
method with --documents. The input is then JSON lines with "text", or "ids" of
tokens, and optionally "path" and "embedding" (a list of numbers).`,
		Example: `  # a million log-normal lengths
  loaderd gen-lengths --dist fineweb-edu > lengths
  loaderd simulate --method bfd --length 2048 lengths

  # pack the whole input at once, as an offline packer does; write every row
  loaderd simulate --method bfd --length 2048 --pool 0 \
      --placements rows.tsv lengths

  # lengths from a column of token lists
  loaderd simulate --length 4096 --column input_ids corpus.parquet

  # three sources, until one of them is exhausted; math is read up to four times
  loaderd simulate --length 2048 --source web=web.txt:0.6 \
      --source code=code.txt:0.3 --source math=math.txt:0.1 --epochs math=4 \
      --tokens 1e9

  # with the mixture schedule of a run
  loaderd simulate --length 2048 -c loaderd.yaml --source web=web.txt \
      --source code=code.txt

  # related documents in one row
  loaderd simulate --method splice --length 8192 \
      --retriever repo documents.jsonl`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			packing.settle(cmd)
			whole.on = whole.on || packing.config.SimilarityConfig() != nil
			err := errors.Join(packing.check(cmd), sources.check(cmd, args))
			if sources.on() {
				if err == nil {
					err = sources.simulate(cmd, &packing, &configuration, input.column, placements)
				} else {
					err = command.Usage(err)
				}
				if err != nil {
					return fmt.Errorf("simulate: %w", err)
				}
				return nil
			}
			if !whole.on {
				err = errors.Join(err, input.check(args))
			} else if input.column != "" {
				err = errors.Join(err, errors.New("--column: want lengths, not documents"))
			}
			if err != nil {
				return command.Usage(fmt.Errorf("simulate: %w", err))
			}
			var lengths []int32
			var hints []*similarity.Hint
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
			result, err := simulateTo(placements, simulation.LineWriter,
				func(each simulation.RowFunc) (*simulation.Result, error) {
					return simulation.RunDocuments(cmd.Context(), packing.config, lengths, hints, packing.short(), each)
				})
			if err != nil {
				return fmt.Errorf("simulate: %w", err)
			}
			return writeResult(cmd, result)
		},
	}
	packing.register(cmd)
	packing.registerMethod(cmd)
	packing.registerSplice(cmd)
	input.register(cmd)
	sources.register(cmd)
	cmd.Flags().StringVarP(&configuration.File, "config", "c", "",
		"YAML configuration `file` with sources and mix for a mixture; - reads standard input")
	whole.register(cmd, "\"text\" or \"ids\", and optionally \"path\" and \"embedding\"")
	cmd.Flags().StringVar(&whole.tokenizer, "tokenizer", "gpt2",
		"tokenizer of the text: gpt2, cl100k_base, o200k_base or a tokenizer.json or tokenizer.model `file`")
	cmd.Flags().StringVar(&placements, "placements", "",
		"write every row to this `file`: LENGTH<TAB>document:start:length ...")
	cmd.MarkFlagsOneRequired("length", "buckets")
	return cmd
}

// writeResult writes a result as one line.
func writeResult(cmd *cobra.Command, result *simulation.Result) error {
	out, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", out)
	return err
}

// simulate packs the mixture.
func (in *sourcesInput) simulate(cmd *cobra.Command, packing *packingFlags, configuration *command.ConfigFlags, column,
	placements string) error {
	configured, err := configuration.Load(cmd)
	if err != nil {
		return err
	}
	a, _, err := in.arrivals(cmd, packing, column, configured)
	if err != nil {
		return err
	}
	result, err := simulateTo(placements, a.Placements, func(each simulation.RowFunc) (*simulation.Result, error) {
		return simulation.RunMixture(cmd.Context(), packing.config, a, packing.short(), each)
	})
	if err != nil {
		return err
	}
	return writeResult(cmd, result)
}

// simulateTo simulates and writes the packed sequences with lines to the file named placements, if the name is not
// empty.
func simulateTo(placements string, lines func(io.Writer) simulation.RowFunc,
	simulate func(simulation.RowFunc) (*simulation.Result, error)) (*simulation.Result, error) {
	if placements == "" {
		return simulate(nil)
	}
	f, err := os.Create(placements)
	if err != nil {
		return nil, fmt.Errorf("write placements: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	result, err := simulate(lines(w))
	if err == nil {
		err = w.Flush()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return result, err
}
