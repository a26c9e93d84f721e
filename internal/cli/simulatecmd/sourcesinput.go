package simulatecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/config"
	"loaderd/internal/lengths/lengthsin"
	"loaderd/internal/report"
	"loaderd/internal/simulation"
	"loaderd/loader/mixture"
	"loaderd/loader/runconfig"
)

// sourcesInput reads the lengths of the sources of a mixture.
type sourcesInput struct {
	given  []string // NAME=FILE or NAME=FILE:WEIGHT
	epochs []string // N or forever for all sources, NAME=N for one
	block  []string // as for epochs
	end    string
	tokens float64

	files map[string]string // of the sources, by name
}

func (in *sourcesInput) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&in.given, "source", nil,
		"source of a mixture with its lengths, `NAME=FILE[:WEIGHT]`; may be repeated "+
			"(default weight: that of -c, else 1)")
	f.StringSliceVar(&in.epochs, "epochs", nil,
		"epochs of the sources, 1 or more, or forever: `N` for all, NAME=N for one (default 1)")
	f.StringSliceVar(&in.block, "block", nil,
		"documents that stay together if a source is read in random order: `N` for all, NAME=N for one; "+
			"0 keeps the order of the file (default "+strconv.Itoa(mixture.DefaultBlock)+")")
	f.StringVar(&in.end, "end", "",
		"end of a mixture, when all sources or the first are used up: all or first (default all)")
	f.Float64Var(&in.tokens, "tokens", 0, "maximum tokens of a mixture, such as 1e9; 0: unlimited")
}

// on reports whether the flags describe a mixture.
func (in *sourcesInput) on() bool { return len(in.given) > 0 }

// check rejects flags that require a mixture if there is none, and flags that a mixture does not support.
func (in *sourcesInput) check(cmd *cobra.Command, args []string) error {
	given := func(names ...string) (there []string) {
		for _, name := range names {
			if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
				there = append(there, "--"+name)
			}
		}
		return there
	}
	if !in.on() {
		if cmd.Name() == "simulate" && len(given("config")) > 0 {
			return errors.New("--config: want --source with it: it applies to mixtures")
		}
		if there := given("epochs", "block", "end", "tokens"); len(there) > 0 {
			return fmt.Errorf("%s: want --source with it: it applies to mixtures", strings.Join(there, ", "))
		}
		return nil
	}
	var bad []error
	if f := cmd.Flags().Lookup("method"); f != nil && f.Value.String() == "splice" {
		bad = append(bad, fmt.Errorf("--method: splice: %w", errOnlyLengths))
	}
	if len(args) > 0 {
		bad = append(bad, fmt.Errorf("--source: want no file argument %s: pass it as --source NAME=%s", args[0], args[0]))
	}
	if there := given("documents", "from-stream", "limit", "set", "daemon", "tokenizer"); len(there) > 0 {
		bad = append(bad, fmt.Errorf("--source: a mixture has only lengths: remove %s", strings.Join(there, ", ")))
	}
	if in.tokens < 0 || in.tokens != float64(int64(in.tokens)) {
		bad = append(bad, fmt.Errorf("--tokens: %v: want a whole number of tokens, or 0 for no bound", in.tokens))
	}
	return errors.Join(bad...)
}

// errOnlyLengths is the reason for which methods that use documents' content cannot pack a mixture.
var errOnlyLengths = errors.New("it packs related documents, and a mixture here has only lengths")

// checkShares returns an error if the shares of a mixture depend on more than the lengths of documents.
func checkShares(unit mixture.ShareUnit) error {
	if !unit.CountsLoss() {
		return nil
	}
	return fmt.Errorf("mix.share: %s: want %s, because a mixture here has only lengths, without loss masks", unit,
		mixture.ShareTokens)
}

// checkRowLengths returns an error if a phase of the steps changes the row lengths. do is what the user has to do.
func checkRowLengths(steps runconfig.Steps, do string) error {
	for i, p := range steps.Schedule {
		if len(p.Buckets) > 0 {
			return fmt.Errorf("steps.schedule[%d].buckets: %v: all rows here have the same lengths: %s with --length or "+
				"--buckets", i, p.Buckets, do)
		}
	}
	return nil
}

// without marks the methods that use documents' content as skipped, with the reason, for a mixture.
func (in *sourcesInput) without(runs []report.Comparison) []report.Comparison {
	for i := range runs {
		if in.on() && errors.Is(runs[i].Problem, report.ErrNoDocuments) {
			runs[i].Problem = errOnlyLengths
		}
	}
	return runs
}

// configure makes the mixture of the flags, on the basis of a configuration's mixture. The default configuration has
// no sources. It reads no lengths yet.
func (in *sourcesInput) configure(configured runconfig.Config, seed uint64) (*simulation.Mixture, error) {
	c := mixture.Config{Sources: map[string]mixture.Source{}, Mix: configured.Mix, Seed: seed}
	bad := in.name(c.Sources, configured.Sources)
	if err := checkShares(c.Mix.Share); err != nil {
		bad = append(bad, err)
	}
	if err := checkRowLengths(configured.Steps, "remove the setting, and pass those of one phase"); err != nil {
		bad = append(bad, err)
	}
	for _, name := range slices.Sorted(maps.Keys(configured.Sources)) {
		if _, ok := c.Sources[name]; !ok {
			bad = append(bad,
				fmt.Errorf("--source: the configuration has a source %s: name the file of its lengths with --source %s=FILE",
					name, name))
		}
		if configured.Sources[name].Packing != nil {
			bad = append(bad, fmt.Errorf("sources.%s.packing: one method packs all sources here: remove the setting", name))
		}
	}
	bad = append(bad, each("--epochs", in.epochs, c.Sources, func(s *mixture.Source, value string) (err error) {
		s.Epochs, err = mixture.ParseEpochs(value)
		return err
	})...)
	bad = append(bad, each("--block", in.block, c.Sources, func(s *mixture.Source, value string) (err error) {
		if s.Block, err = strconv.Atoi(value); err != nil {
			err = fmt.Errorf("%q: want a number of documents", value)
		}
		return err
	})...)
	c.Mix.End = cmp.Or(in.end, c.Mix.End)
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	for _, e := range c.Validate() {
		bad = append(bad, e)
	}
	m := &simulation.Mixture{Config: c, Tokens: int64(in.tokens)}
	if m.Endless() && m.Tokens == 0 {
		bad = append(bad, errors.New("--epochs: a mixture with a source that is read forever does not end: set --tokens "+
			"N, or --end first with a source that ends"))
	}
	return m, errors.Join(bad...)
}

// name applies the sources of --source, which must be sources of the configuration if that has any.
func (in *sourcesInput) name(sources, configured map[string]mixture.Source) (bad []error) {
	in.files = map[string]string{}
	for _, given := range in.given {
		name, from, ok := strings.Cut(given, "=")
		if !ok || name == "" || from == "" {
			bad = append(bad, fmt.Errorf("--source: %q: want NAME=FILE or NAME=FILE:WEIGHT, such as web=web.txt:0.6", given))
			continue
		}
		s, known := configured[name]
		switch {
		case from == "-" && slices.Contains(slices.Collect(maps.Values(in.files)), "-"):
			bad = append(bad, errors.New("--source: standard input is one source's: want a file for the others"))
		case in.files[name] != "":
			bad = append(bad, fmt.Errorf("--source: %s is named twice", name))
		case len(configured) > 0 && !known:
			bad = append(bad, fmt.Errorf("--source: %s is not a source of the configuration; its sources are %v", name,
				slices.Sorted(maps.Keys(configured))))
		case !known:
			s = mixture.Source{Weight: 1, Epochs: 1, Block: mixture.DefaultBlock}
		}
		if i := strings.LastIndexByte(from, ':'); i > 0 {
			if w, err := strconv.ParseFloat(from[i+1:], 64); err == nil {
				s.Weight, from = w, from[:i]
			}
		}
		in.files[name], sources[name] = from, s
	}
	return bad
}

// each applies the values of a flag: VALUE to all sources, NAME=VALUE to one source.
func each(flag string, values []string, sources map[string]mixture.Source,
	set func(*mixture.Source, string) error) (bad []error) {
	for _, given := range values {
		name, value, one := strings.Cut(given, "=")
		names := []string{name}
		if !one {
			names, value = slices.Sorted(maps.Keys(sources)), given
		}
		for _, name := range names {
			s, ok := sources[name]
			if !ok {
				bad = append(bad, fmt.Errorf("%s: %s is not a source; the sources are %v", flag, name,
					slices.Sorted(maps.Keys(sources))))
				break
			}
			if err := set(&s, value); err != nil {
				bad = append(bad, fmt.Errorf("%s: %w", flag, err))
				break
			}
			sources[name] = s
		}
	}
	return bad
}

// arrivals returns the documents of the mixture that flags and configuration describe, and the name of the input.
func (in *sourcesInput) arrivals(cmd *cobra.Command, packing *packingFlags, column string,
	configured config.Config) (*simulation.Arrivals, string, error) {
	of := configured.Plan
	if configured.HasOnlySource() { // the flags name all sources
		of.Sources = nil
	}
	m, err := in.configure(of, packing.config.Seed)
	if err != nil {
		return nil, "", command.Usage(err)
	}
	return in.read(cmd.Context(), cmd.InOrStdin(), column, m)
}

// read reads the lengths of all sources and returns the name of the input.
func (in *sourcesInput) read(ctx context.Context, stdin io.Reader, column string,
	m *simulation.Mixture) (a *simulation.Arrivals, name string, err error) {
	if column != "" && !slices.ContainsFunc(slices.Collect(maps.Values(in.files)), lengthsin.IsParquet) {
		return nil, "", command.Usage(errors.New("--column: want a source whose file ends in .parquet"))
	}
	m.Lengths = map[string][]int32{}
	var names []string
	for _, source := range slices.Sorted(maps.Keys(in.files)) {
		file := []string{in.files[source]}
		one := lengthsInput{}
		if lengthsin.IsParquet(file[0]) {
			one.column = column
		}
		if err := one.check(file); err != nil {
			return nil, "", command.Usage(fmt.Errorf("--source: %w", err))
		}
		list, what, err := one.read(stdin, file)
		if err != nil {
			return nil, "", fmt.Errorf("source %s: %w", source, err)
		}
		m.Lengths[source] = list
		names = append(names, source+" of "+what)
	}
	a, err = m.Arrivals(ctx)
	return a, strings.Join(names, ", "), err
}
