package simulatecmd

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loaderd/internal/cli/command"
	"loaderd/internal/config"
	"loaderd/internal/documents"
	"loaderd/internal/relatedness"
	"loaderd/internal/report"
	"loaderd/internal/simulation"
	"loaderd/packonline"
)

// compareRows are the default row lengths.
var compareRows = []int{1024, 2048, 4096, 8192, 16384}

// compareFlags are the flags of compare.
type compareFlags struct {
	packing packingFlags
	file    lengthsInput
	sources sourcesInput
	stream  streamInput
	whole   documentsInput
	methods []string
	out     string
}

// NewCompareCmd returns the command compare.
func NewCompareCmd() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare [FILE] --out DIR",
		Short: "Compare all packing methods on the same lengths",
		Long: `Compare all packing methods on the same documents, each at its default
parameters. The command prints a table and writes compare.json and report.html.
The page has plots and opens without a network.

The input has one length in tokens per line: FILE, a column of FILE.parquet, or
standard input without FILE. With --from-stream it is the documents of a running
daemon, which are tokenized and not changed. Lengths include the end-of-document
token. Methods with one row length use the longest row.

With --documents, FILE has JSON lines of documents, as in simulate. The
comparison then includes splice, and the report shows how related the documents
in a row are. With --source, once per source, the comparison uses a mixture of
sources, as in simulate. The report then has figures for each source.

Without --length and --buckets, rows have 1024 to 16384 tokens. With -c they are
those of the configuration, and with --from-stream those of the run over the
stream. The documents of several sources are mixed as in that run.

The table ends with the recommended settings as YAML for a configuration file.
No method is recommended if a part of its run is not representative.`,
		Example: `  loaderd gen-lengths --dist fineweb-edu | loaderd compare --out report
  loaderd compare --length 2048 --methods concat,bfd,bucket --out report lengths
  loaderd compare --column input_ids --out report corpus.parquet

  # a mixture of two sources; -c loaderd.yaml adds the sections sources and mix
  loaderd compare --length 2048 --source web=web.txt:0.7 \
      --source code=code.txt:0.3 --out report

  # documents: also compare how related the documents in a row are
  loaderd compare --documents --length 8192 --methods concat,bucket,splice \
      --out report documents.jsonl

  # the documents of a running daemon
  loaderd compare --from-stream -c loaderd.yaml --out report
  loaderd compare --from-stream --daemon nats://nats-1:4222 --tokenizer gpt2 \
      --limit 100000 --out report`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.run(cmd, args); err != nil {
				return fmt.Errorf("compare: %w", err)
			}
			return nil
		},
	}
	f.packing.register(cmd)
	f.packing.registerSplice(cmd)
	f.whole.register(cmd, "\"text\" or \"ids\", and optionally \"path\" and \"embedding\"; also compares splice "+
		"and the relatedness in rows")
	f.file.register(cmd)
	f.sources.register(cmd)
	f.stream.register(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.methods, "methods", nil, "packing methods to compare (default all): "+
		strings.Join(packonline.Methods(), ", "))
	flags.StringVarP(&f.out, "out", "o", "", "`folder` for compare.json and report.html; created if it does not exist")
	_ = cmd.MarkFlagRequired("out")
	return cmd
}

func (f *compareFlags) run(cmd *cobra.Command, args []string) (failed error) {
	defer func() { failed = errors.Join(failed, f.stream.close()) }()
	if err := f.sources.check(cmd, args); err != nil {
		return command.Usage(err)
	}
	daemon, err := f.configuration(cmd, args)
	if err != nil {
		return err
	}
	runs, err := f.comparisons(cmd)
	if err == nil {
		err = f.checkInput(args)
	}
	if err != nil {
		return command.Usage(err)
	}
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	in, err := f.read(cmd, args, daemon)
	if err != nil {
		return err
	}
	r := &report.Report{Input: in.name, Command: commandLine(cmd, args), Rows: f.packing.config.Buckets,
		Pool:   f.packing.config.Pool,
		MaxAge: f.packing.config.MaxAge, Short: f.packing.short()}
	r.Lengths = report.DescribeLengths(in.lengths, r.Rows[len(r.Rows)-1])
	if !cmd.Flags().Changed("methods") {
		report.SkipUnboundedPools(runs, len(in.lengths))
	}
	progress := command.NewProgress(cmd.ErrOrStderr(), "methods")
	defer progress.Finish()
	err = r.Compare(runs, func(c packonline.Config) (*simulation.Result, *relatedness.Metrics, error) {
		return in.pack(cmd, c, r.Short)
	},
		func(done int) { progress.Report(int64(done), int64(len(runs))) })
	if err != nil {
		return err
	}
	page, err := r.WriteFolder(f.out)
	if err != nil {
		return err
	}
	if err := r.WriteTable(cmd.OutOrStdout()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "\n%s\n", page)
	return err
}

// configuration returns the configuration of the daemon whose documents are compared, or that of the mixture.
func (f *compareFlags) configuration(cmd *cobra.Command, args []string) (config.Config, error) {
	if !f.sources.on() {
		return f.stream.settle(cmd, args, &f.packing)
	}
	c, err := f.stream.flags.Load(cmd)
	if err == nil && cmd.Flags().Changed("config") {
		f.packing.like(cmd, &c.Plan.Packing)
	}
	return c, err
}

// checkInput reports errors of the input flags before anything is read.
func (f *compareFlags) checkInput(args []string) error {
	switch {
	case f.sources.on():
	case f.whole.on && (f.stream.from || f.file.column != ""):
		return errors.New("--documents: want JSON lines, not --from-stream or --column")
	case !f.whole.on && !f.stream.from:
		return f.file.check(args)
	}
	return nil
}

// compared is the input of a comparison.
type compared struct {
	name     string // of the input
	lengths  []int32
	set      *documents.Set       // nil for input of lengths only
	arrivals *simulation.Arrivals // nil without a mixture
}

// pack packs the input with one configuration.
func (in *compared) pack(cmd *cobra.Command, c packonline.Config,
	below int) (result *simulation.Result, related *relatedness.Metrics, err error) {
	switch {
	case in.set != nil:
		return packDocuments(cmd, in.set, c, below)
	case in.arrivals != nil:
		result, err = simulation.RunMixture(cmd.Context(), c, in.arrivals, below, nil)
	default:
		result, err = simulation.RunDocuments(cmd.Context(), c, in.lengths, nil, below, nil)
	}
	return result, nil, err
}

// read reads the input and returns an error if it is empty.
func (f *compareFlags) read(cmd *cobra.Command, args []string, c config.Config) (in compared, err error) {
	what := "lengths"
	switch {
	case f.sources.on():
		if in.arrivals, in.name, err = f.sources.arrivals(cmd, &f.packing, f.file.column, c); err == nil {
			in.lengths = in.arrivals.Lengths
		}
	case f.whole.on:
		what = "documents"
		f.whole.tokenizer = cmp.Or(f.stream.tokenizer(), "gpt2")
		if in.set, in.name, err = f.whole.read(cmd.InOrStdin(), args); err == nil {
			in.lengths = in.set.Lengths()
		}
	case f.stream.from:
		in, err = f.stream.read(cmd.Context(), c, f.packing.config.Seed, cmd.ErrOrStderr())
	default:
		in.lengths, in.name, err = f.file.read(cmd.InOrStdin(), args)
	}
	if err == nil && len(in.lengths) == 0 {
		err = fmt.Errorf("%s has no %s", in.name, what)
	}
	return in, err
}

// comparisons returns the comparisons to run. A method named by a flag must be applicable to the input. Other methods
// that are not applicable are skipped, with the reason.
func (f *compareFlags) comparisons(cmd *cobra.Command) ([]report.Comparison, error) {
	c := &f.packing.config
	if len(c.Buckets) == 0 && !cmd.Flags().Changed("length") {
		c.Buckets = compareRows
	}
	f.packing.settle(cmd)
	if bad := report.CommonProblems(*c); len(bad) > 0 {
		return nil, joined(bad)
	}
	if len(f.methods) == 0 {
		return f.sources.without(report.Comparisons(*c, packonline.Methods(), f.whole.on)), nil
	}
	runs := f.sources.without(report.Comparisons(*c, f.methods, f.whole.on))
	var bad []error
	for i, m := range f.methods {
		problem := runs[i].Problem
		switch {
		case !slices.Contains(packonline.Methods(), m):
			bad = append(bad, fmt.Errorf("--methods: %q: want some of %s", m, strings.Join(packonline.Methods(), ", ")))
		case slices.Contains(f.methods[:i], m):
			bad = append(bad, fmt.Errorf("--methods: %s is named twice", m))
		case errors.Is(problem, report.ErrNoDocuments), errors.Is(problem, errOnlyLengths):
			bad = append(bad, fmt.Errorf("--methods: %s: %w", m, problem))
		case problem != nil:
			bad = append(bad, fmt.Errorf("%s: %w", m, problem))
		}
	}
	return runs, errors.Join(bad...)
}

// packDocuments packs documents and measures the relatedness of those that share a row.
func packDocuments(cmd *cobra.Command, set *documents.Set, c packonline.Config,
	below int) (*simulation.Result, *relatedness.Metrics, error) {
	hints, err := documentHints(cmd, set, &c)
	if err != nil {
		return nil, nil, err
	}
	return set.Pack(cmd.Context(), c, hints, below)
}

// commandLine returns the command line as a user could type it.
func commandLine(cmd *cobra.Command, args []string) string {
	line := cmd.CommandPath()
	for _, f := range givenFlags(cmd) {
		line += " " + f
	}
	for _, a := range args {
		line += " " + quoted(a)
	}
	return line
}

// givenFlags returns the flags on the command line, except those that may contain a server's password.
func givenFlags(cmd *cobra.Command) (given []string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name == command.DaemonFlagName {
			return
		}
		values := []string{f.Value.String()}
		switch v := f.Value.(type) {
		case *command.OverrideFlag:
			return
		case pflag.SliceValue:
			if values = v.GetSlice(); f.Value.Type() != "stringArray" {
				values = []string{strings.Join(values, ",")}
			}
		}
		for _, value := range values {
			text := "--" + f.Name
			if value != f.NoOptDefVal {
				text += " " + quoted(value)
			}
			given = append(given, text)
		}
	})
	return given
}

// quoted quotes an argument if a shell would split or expand it.
func quoted(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n\"'\\$`*?[]{}()<>|&;#~!") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
