package daemoncmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/config"
	"loaderd/internal/corpus"
	"loaderd/internal/corpus/gosource"
	"loaderd/internal/demo"
	"loaderd/internal/demo/screen"
	"loaderd/internal/humanize"
	"loaderd/loader/follower"
	"loaderd/loader/runconfig"
)

// demoFlags are the flags of demo.
type demoFlags struct {
	settings command.ConfigFlags // only its overrides
	world    int
	limit    int64
	keep     string
	stay     bool
	noKill   bool
	json     bool
}

// NewDemoCmd returns the command demo.
func NewDemoCmd() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo [flags] [PATH...]",
		Short: "Run a loader on real documents, kill it, and compare",
		Long: `Run a loader on real documents, kill it, and compare.

The demo starts a daemon with its NATS JetStream server and one reader per rank,
each in a process, and publishes documents. All readers advance from step to
step together, as ranks do. After 20 steps the demo kills a rank: the job
resumes at its checkpoint and reads some steps again. After 40 steps, or at the
end of a shorter run, it kills the daemon and starts it again over the same
data: the ranks continue where they were. At the end, a single reader reads all
steps again. Every byte is compared with the first reading.

The documents are those of PATH (files or folders, as in loaderd publish), or
the Go source tree. The processes communicate over loopback sockets on free
ports. The data is in a temporary folder, which is removed at the end.

On a terminal the demo shows a live view; q stops the demo. Elsewhere it prints
a line at intervals. A summary follows. LOADERD_ environment variables are
ignored.`,
		Example: `  loaderd demo
  loaderd demo --length 8192 --world 4 --limit 2000 ~/src

  # continue serving, to read the same steps from Python
  loaderd demo --stay

  # print one JSON object
  loaderd demo --json | jq .tokens_per_second`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	for _, x := range []struct{ name, path, usage string }{
		{"tokenizer", "tokenizer.name",
			"gpt2, cl100k_base, o200k_base or a tokenizer.json, tokenizer.model or rank `file` (default gpt2)"},
		{"method", "packing.method", "packing `method`, such as bfd or concat (default bucket)"},
		{"length", "packing.buckets", "`tokens` of a row (default 2048)"},
		{"rows", "steps.rows", "`rows` of a step over all readers (default 64)"},
	} {
		f.settings.Override(cmd, x.name, x.path, x.usage)
	}
	f.settings.Override(cmd, "set", "",
		"override any setting of loaderd serve, such as packing.pool=8192; may be repeated")
	flags.IntVar(&f.world, "world", 2, "readers, each one rank; they share the rows of a step evenly")
	flags.Int64Var(&f.limit, "limit", 0, "publish at most this many documents; 0 publishes all")
	flags.StringVar(&f.keep, "keep", "", "store the data in this `folder`, which must be empty or absent, and keep it")
	flags.BoolVar(&f.noKill, "no-kill", false, "kill no process, and do not read the steps again")
	flags.BoolVar(&f.stay, "stay", false, "continue serving until ctrl-C after all steps have been read")
	flags.BoolVar(&f.json, "json", false, "write only the summary to standard output, as one JSON object")
	return cmd
}

func (f *demoFlags) run(cmd *cobra.Command, paths []string) (err error) {
	began := time.Now()
	ctx, stdout, stderr := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	if err := f.check(paths); err != nil {
		return err
	}
	folder, remove, err := f.folder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	c, settings, err := f.config(folder)
	if err != nil {
		return err
	}
	find := func(ctx context.Context) (demo.Documents, error) {
		return demoDocuments(ctx, paths, c.Stream.MaxDocument)
	}
	if f.keep != "" { // after a mistyped path the folder is empty
		found, err := find(ctx)
		if err != nil {
			return err
		}
		find = func(context.Context) (demo.Documents, error) { return found, nil }
	}
	notes := &demo.LogBuffer{}
	job := demo.New(demo.Options{StartTime: began, Config: c, Settings: settings, FindDocuments: find, World: f.world,
		Limit: f.limit, NoKill: f.noKill, LogBuffer: notes})
	defer func() { err = errors.Join(err, job.Stop()) }()

	stopped, err := f.show(ctx, job, stdout, stderr)
	if !f.stay { // its memory is known afterwards
		err = errors.Join(err, job.Stop())
	}
	if _, writeErr := stderr.Write(notes.TakeLines()); err == nil {
		err = writeErr
	}
	interrupted := ctx.Err() // an interrupt after the summary ends --stay without an error
	if err != nil && interrupted == nil {
		return err
	}
	sum := job.Summary()
	if err := f.report(stdout, sum); err != nil {
		return err
	}
	if interrupted != nil || stopped || !f.stay {
		return interrupted
	}
	return job.KeepServing(ctx)
}

// show runs the job and displays it. It reports whether the user stopped it in the live view.
func (f *demoFlags) show(ctx context.Context, job *demo.Job, stdout, stderr io.Writer) (stopped bool, err error) {
	if f.json {
		return false, screen.RunLines(ctx, job, stderr)
	}
	if out := command.Terminal(stdout); out != nil && os.Getenv("TERM") != "dumb" {
		return screen.RunLive(ctx, job, out)
	}
	return false, screen.RunLines(ctx, job, stdout)
}

func (f *demoFlags) report(w io.Writer, s demo.Summary) error {
	if f.json {
		return s.WriteJSON(w)
	}
	return s.WriteText(w, f.stay)
}

// check rejects flags and paths that the demo cannot publish.
func (f *demoFlags) check(paths []string) error {
	if f.limit < 0 {
		return command.Usage(fmt.Errorf("--limit %d: want 0 (all) or more", f.limit))
	}
	if slices.Contains(paths, "-") {
		return command.Usage(errors.New("demo reads files and folders, not standard input"))
	}
	return nil
}

// demoDocuments finds the documents to publish and their format. most is the size limit per document in bytes.
func demoDocuments(ctx context.Context, paths []string, most int) (found demo.Documents, err error) {
	if len(paths) == 0 {
		tree, err := goTree(ctx)
		if err != nil {
			return found, err
		}
		// Go's test data contains deliberately broken archives, so read all files as text.
		paths, found.Format = []string{tree}, corpus.Text
	}
	found.Description = strings.Join(paths, " ")
	found.Inputs, err = corpus.Open(ctx, paths, nil, corpus.Options{Format: found.Format, MaxDocument: int64(most),
		DeferChecks: true})
	if err == nil && len(found.Inputs) == 0 {
		err = fmt.Errorf("find documents: no file in %s: name files or folders with text", found.Description)
	}
	return found, err
}

// folder makes the data folder. remove deletes it unless --keep is set.
func (f *demoFlags) folder() (path string, remove func() error, err error) {
	if f.keep == "" {
		path, err := os.MkdirTemp("", "loaderd-demo-")
		if err != nil {
			return "", nil, fmt.Errorf("make data folder: %w: set TMPDIR to a writable folder, or use --keep", err)
		}
		return path, func() error { return os.RemoveAll(path) }, nil
	}
	if err := os.MkdirAll(f.keep, 0o755); err != nil {
		return "", nil, fmt.Errorf("make data folder: %w", err)
	}
	held, err := os.ReadDir(f.keep)
	if err != nil {
		return "", nil, fmt.Errorf("read data folder: %w", err)
	}
	if len(held) > 0 {
		return "", nil, fmt.Errorf("data folder %s is not empty: name another folder with --keep, or serve its data with "+
			"loaderd serve --run %s --data-dir %s",
			f.keep, demo.Run, f.keep)
	}
	return f.keep, func() error { return nil }, nil
}

// config returns the configuration of a normal daemon, with the flags applied, and the settings that it was made of.
func (f *demoFlags) config(folder string) (config.Config, []config.Override, error) {
	settings := demo.Settings(folder, f.settings.Overrides)
	c, err := config.Load(config.Layers{Overrides: settings})
	if err != nil {
		return c, nil, err
	}
	if err := f.checkConfig(c); err != nil {
		return c, nil, command.Usage(err)
	}
	return c, settings, nil
}

// checkConfig rejects settings with which the demo cannot run.
func (f *demoFlags) checkConfig(c config.Config) error {
	switch {
	case !c.Stream.Embedded():
		return errors.New("--set stream.url: the demo runs its own NATS server; to use another server, " +
			"see loaderd serve and loaderd publish")
	case c.Tokenizer.Name == config.TokenizerNone:
		return errors.New("--tokenizer none: the demo's documents are text and need a tokenizer")
	case f.world < 1:
		return fmt.Errorf("--world %d: want 1 reader or more", f.world)
	case follower.CheckWorldSize(runconfig.NewSchedule(c.Plan), 0, f.world) != nil:
		return fmt.Errorf("--world %d: want a number of readers that divides the %s rows of a step (--rows)", f.world,
			humanize.Range(c.Plan.Steps.RowsPerBucket(c.Plan.Packing.Buckets)))
	}
	return nil
}

// NewDemoRankCmd returns the command that the demo starts for each rank.
func NewDemoRankCmd() *cobra.Command {
	var o demo.RankOptions
	cmd := &cobra.Command{
		Use:    demo.RankCommand,
		Short:  "Read as a rank of the demo",
		Hidden: true,
		Args:   command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.Run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.URI, "uri", "", "`URI` of the daemon's Flight server")
	flags.StringVar(&o.DataDir, "data-dir", "", "data `folder` of the daemon")
	flags.IntVar(&o.Rank, "rank", 0, "rank")
	flags.IntVar(&o.World, "world", 1, "number of ranks")
	flags.Uint64Var(&o.Step, "step", 0, "first step")
	return cmd
}

// goTree returns the source tree of the Go installation: real text that every machine that builds this program has.
func goTree(ctx context.Context) (string, error) {
	tree, err := gosource.Dir(ctx)
	if err != nil {
		return "", fmt.Errorf("find documents: %w: name files or folders with text, as in loaderd demo ~/src", err)
	}
	return tree, nil
}
