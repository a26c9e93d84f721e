package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loaderd/internal/documents"
	"loaderd/internal/relatedness"
	"loaderd/internal/report"
	"loaderd/internal/simulation"
	"loaderd/packonline"
)

// compareRows are the row lengths that are compared when none are given.
var compareRows = []int{1024, 2048, 4096, 8192, 16384}

func newCompareCmd() *cobra.Command {
	var packing packingFlags
	var file lengthsInput
	var stream streamInput
	var whole documentsInput
	var methods []string
	var out string
	cmd := &cobra.Command{
		Use:   "compare [FILE] --out DIR",
		Short: "Run every packing method on the same lengths and show which suits them",
		Long: `Compare packs the same documents with every method at its default parameters, shows a table, and writes compare.json and
report.html, one page with plots that opens without a network.

It reads one length in tokens a line from FILE, a column of FILE.parquet, standard input without a FILE, or, with --from-stream, the
documents of a running daemon, which it tokenizes and leaves as they are. Lengths count the end-of-document token. Methods with one row
length take the longest row. With --documents FILE holds JSON lines of documents, as in simulate; splice is then compared too, and the
report says how related the documents are that share a row. Without --length and --buckets rows are 1024 to 16384 tokens long, or as in the configuration of -c,
or with --from-stream as the run over the stream has them.`,
		Example: `  loaderd gen-lengths --dist fineweb-edu | loaderd compare --out report
  loaderd compare --length 2048 --methods concat,bfd,bucket --out report lengths
  loaderd compare --column input_ids --out report corpus.parquet

  # whole documents: how related are those that share a row?
  loaderd compare --documents --length 8192 --methods concat,bucket,splice --out report documents.jsonl

  # the documents of a running daemon
  loaderd compare --from-stream -c loaderd.yaml --out report
  loaderd compare --from-stream --nats nats://nats-1:4222 --tokenizer gpt2 --limit 100000 --out report`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (failed error) {
			defer func() { failed = errors.Join(failed, stream.close()) }()
			daemon, err := stream.settle(cmd, args, &packing)
			if err != nil {
				return fmt.Errorf("compare: %w", err)
			}
			runs, err := comparisons(cmd, &packing, methods, whole.on)
			switch {
			case err != nil:
			case whole.on && (stream.from || file.column != ""):
				err = errors.New("--documents: want JSON lines, not --from-stream or --column")
			case !whole.on && !stream.from:
				err = file.check(args)
			}
			if err != nil {
				return usageError{fmt.Errorf("compare: %w", err)}
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return fmt.Errorf("compare: make folder: %w", err)
			}
			var lengths []int32
			var set *documents.Set
			var name string
			switch {
			case whole.on:
				whole.tokenizer = cmp.Or(stream.tokenizer(), "gpt2")
				if set, name, err = whole.read(cmd.InOrStdin(), args); err == nil {
					lengths = set.Lengths()
				}
			case stream.from:
				lengths, name, err = stream.read(cmd.Context(), daemon, cmd.ErrOrStderr())
			default:
				lengths, name, err = file.read(cmd.InOrStdin(), args)
			}
			if err == nil && len(lengths) == 0 {
				what := "lengths"
				if set != nil {
					what = "documents"
				}
				err = fmt.Errorf("%s holds no %s", name, what)
			}
			if err != nil {
				return fmt.Errorf("compare: %w", err)
			}
			r := &report.Report{Input: name, Command: commandLine(cmd, args), Rows: packing.config.Buckets, Pool: packing.config.Pool, MaxAge: packing.config.MaxAge, Short: packing.short()}
			if err := compare(cmd, r, lengths, set, runs, out); err != nil {
				return fmt.Errorf("compare: %w", err)
			}
			return nil
		},
	}
	packing.register(cmd)
	packing.registerSplice(cmd)
	whole.register(cmd, "\"text\" or \"ids\", and optionally \"path\" and \"embedding\"; splice is compared too, and how related the documents of rows are")
	file.register(cmd)
	stream.register(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&methods, "methods", nil, "packing methods to compare (default all): "+strings.Join(packonline.Methods(), ", "))
	f.StringVarP(&out, "out", "o", "", "`folder` for compare.json and report.html; made when absent")
	_ = cmd.MarkFlagRequired("out")
	return cmd
}

// comparison is one method to run, or the reason why it can not.
type comparison struct {
	config packonline.Config
	reason string
}

// comparisons returns what is to be run. A method that was asked for by name must be able to; others are left out with the reason.
func comparisons(cmd *cobra.Command, packing *packingFlags, methods []string, documents bool) ([]comparison, error) {
	c := &packing.config
	if len(c.Buckets) == 0 && !cmd.Flags().Changed("length") {
		c.Buckets = compareRows
	}
	packing.settle(cmd)
	if bad := commonProblems(*c); len(bad) > 0 {
		return nil, joined(bad)
	}
	asked := len(methods) > 0
	if !asked {
		methods = packonline.Methods()
	}
	var runs []comparison
	var bad []error
	for i, m := range methods {
		run := comparison{config: *c}
		run.config.Method = m
		if !packonline.Buckets(m) {
			run.config.Buckets = c.Buckets[len(c.Buckets)-1:]
		}
		problems := simulation.Check(run.config)
		switch {
		case !slices.Contains(packonline.Methods(), m):
			bad = append(bad, fmt.Errorf("--methods: %q: want some of %s", m, strings.Join(packonline.Methods(), ", ")))
		case slices.Contains(methods[:i], m):
			bad = append(bad, fmt.Errorf("--methods: %s is named twice", m))
		case run.config.Related() != nil && !documents:
			run.reason = "it packs documents that have to do with one another: give them with --documents"
			if asked {
				bad = append(bad, fmt.Errorf("--methods: %s: %s", m, run.reason))
			}
		case len(problems) == 0:
		case asked:
			bad = append(bad, fmt.Errorf("%s: %w", m, problems[0]))
		default:
			run.reason = problems[0].Error()
		}
		runs = append(runs, run)
	}
	return runs, errors.Join(bad...)
}

// commonProblems are what every method with several row lengths finds wrong: what only some do is theirs to say.
func commonProblems(c packonline.Config) []packonline.FieldError {
	var least []packonline.FieldError
	first := true
	for _, c.Method = range packonline.Methods() {
		if !packonline.Buckets(c.Method) {
			continue
		}
		if bad := simulation.Check(c); first || len(bad) < len(least) {
			least, first = bad, false
		}
	}
	return least
}

// compare runs all methods, shows what they did and writes it to the folder out.
func compare(cmd *cobra.Command, r *report.Report, lengths []int32, set *documents.Set, runs []comparison, out string) error {
	r.Lengths = report.Describe(lengths, r.Rows[len(r.Rows)-1])
	progress := newProgress(cmd.ErrOrStderr())
	for i, run := range runs {
		progress.say("%d of %d: %s", i+1, len(runs), run.config.Method)
		if run.reason == "" && run.config.Pool == 0 && !cmd.Flags().Changed("methods") {
			whole := run.config
			whole.Pool = max(len(lengths), 1)
			if problems := whole.Validate(); len(problems) > 0 {
				run.reason = problems[0].Error()
			}
		}
		if run.reason != "" {
			r.Skipped = append(r.Skipped, report.Skipped{Method: run.config.Method, Reason: run.reason})
			continue
		}
		if set == nil {
			result, err := simulation.RunDocuments(cmd.Context(), run.config, lengths, nil, r.Short, nil)
			if err != nil {
				return fmt.Errorf("%s: %w", run.config.Method, err)
			}
			r.Add(result, nil)
			continue
		}
		result, figures, err := pack(cmd, set, run.config, r.Short)
		if err != nil {
			return fmt.Errorf("%s: %w", run.config.Method, err)
		}
		r.Add(result, figures)
	}
	r.Judge()
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{{"compare.json", r.WriteJSON}, {"report.html", r.WriteHTML}} {
		var b bytes.Buffer
		if err := f.write(&b); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, f.name), b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("write comparison: %w", err)
		}
	}
	if err := r.WriteTable(cmd.OutOrStdout()); err != nil {
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "\n%s\n", filepath.Join(out, "report.html"))
	return err
}

// pack packs documents and measures how related those are that share a row.
func pack(cmd *cobra.Command, set *documents.Set, c packonline.Config, below int) (*simulation.Result, *relatedness.Figures, error) {
	hints, err := settle(cmd, set, &c)
	if err != nil {
		return nil, nil, err
	}
	return set.Pack(cmd.Context(), c, hints, below)
}

// commandLine is the command as one could type it.
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

// givenFlags are the flags that were given, save those that may hold a server's password.
func givenFlags(cmd *cobra.Command) (given []string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		switch v := f.Value.(type) {
		case *overrideFlag:
			return
		case pflag.SliceValue:
			value = strings.Join(v.GetSlice(), ",")
		}
		text := "--" + f.Name
		if value != f.NoOptDefVal {
			text += " " + quoted(value)
		}
		given = append(given, text)
	})
	return given
}

// quoted quotes what a shell would take apart.
func quoted(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n\"'\\$`*?[]{}()<>|&;#~!") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
