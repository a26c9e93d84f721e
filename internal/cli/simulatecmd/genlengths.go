package simulatecmd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/humanize"
	"loaderd/internal/lengths"
	"loaderd/internal/table"
)

// NewGenLengthsCmd returns the command gen-lengths.
func NewGenLengthsCmd() *cobra.Command {
	var dist string
	var seed uint64
	var n int
	var mu, sigma float64
	cmd := &cobra.Command{
		Use:   "gen-lengths --dist NAME [-n N] [--seed N]",
		Short: "Draw document lengths from a known distribution",
		Long: `Draw document lengths in tokens from a known distribution, and write one per
line to standard output. Lengths include the end-of-document token. simulate and
compare read this format. The same seed draws the same lengths. --dist list
prints the distributions and their sources.`,
		Example: `  loaderd gen-lengths --dist list
  loaderd gen-lengths --dist fineweb-edu -n 1000000 > lengths
  loaderd gen-lengths --dist pubmed | loaderd simulate --method seamless \
      --length 2048`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dist == "list" {
				return listDistributions(cmd.OutOrStdout())
			}
			d, err := chooseDistribution(dist, cmd.Flags().Changed, n, mu, sigma)
			if err != nil {
				return command.Usage(fmt.Errorf("gen-lengths: %w", err))
			}
			return writeLengths(cmd.OutOrStdout(), d.Draw(d.Documents, seed))
		},
	}
	f := cmd.Flags()
	f.StringVar(&dist, "dist", "", "`name` of the distribution, or list")
	f.IntVarP(&n, "documents", "n", 0, "number of documents (default: as many as the distribution's source has)")
	f.Uint64Var(&seed, "seed", 1, "key of the draws")
	f.Float64Var(&mu, "mu", 0, "mean of the lengths' logarithm, for a log-normal distribution")
	f.Float64Var(&sigma, "sigma", 0, "standard deviation of the lengths' logarithm, for a log-normal distribution")
	_ = cmd.MarkFlagRequired("dist")
	return cmd
}

// maxDocuments is the maximum number of lengths: 8 GiB of memory.
const maxDocuments = math.MaxInt32

// chooseDistribution applies the given parameters and reports all invalid ones.
func chooseDistribution(name string, given func(string) bool, n int, mu, sigma float64) (lengths.Distribution, error) {
	var bad []error
	refuse := func(flag string, value any, want string) {
		bad = append(bad, fmt.Errorf("%s: %v: want %s", flag, value, want))
	}
	d, ok := lengths.ByName(name)
	if !ok {
		refuse("--dist", name, "list, or one of "+strings.Join(distributionNames(), ", "))
	}
	if given("documents") {
		if d.Documents = n; n < 0 || n > maxDocuments {
			refuse("--documents", n, "0 to 2^31-1")
		}
	}
	logNormal := d.Sigma > 0 || !ok
	for _, x := range []struct {
		flag        string
		value       float64
		least, most float64
		set         *float64
	}{{"mu", mu, -30, 30, &d.Mu}, {"sigma", sigma, 0, 30, &d.Sigma}} {
		switch {
		case !given(x.flag):
		case !logNormal:
			refuse("--"+x.flag, x.value, "no value: "+name+" is not log-normal")
		case !(x.value >= x.least && x.value <= x.most):
			refuse("--"+x.flag, x.value, fmt.Sprintf("%v to %v", x.least, x.most))
		default:
			*x.set = x.value
		}
	}
	return d, errors.Join(bad...)
}

func distributionNames() (names []string) {
	for _, d := range lengths.Distributions() {
		names = append(names, d.Name)
	}
	return names
}

func listDistributions(w io.Writer) error {
	t := table.New("NAME", "DOCUMENTS", "LENGTHS IN TOKENS", "SOURCE")
	for _, d := range lengths.Distributions() {
		t.Row(d.Name, humanize.Count(d.Documents), d.Shape, d.Source)
	}
	return t.Write(w)
}

// writeLengths writes one length per line.
func writeLengths(out io.Writer, in []int32) error {
	w := bufio.NewWriterSize(out, 1<<16)
	var line []byte
	for _, n := range in {
		line = append(strconv.AppendInt(line[:0], int64(n), 10), '\n')
		if _, err := w.Write(line); err != nil {
			return fmt.Errorf("write lengths: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write lengths: %w", err)
	}
	return nil
}
