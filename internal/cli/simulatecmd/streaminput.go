package simulatecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/lengths/lengthsin"
	"loaderd/internal/runadmin"
	"loaderd/internal/simulation"
	"loaderd/loader/runconfig"
	"loaderd/stream"
	"loaderd/stream/docstream"
	"loaderd/stream/server"
)

// streamInput reads the lengths of the documents in a running daemon's stream, as the daemon's tokenizer produces
// them.
type streamInput struct {
	from      bool
	documents int
	flags     command.ConfigFlags
	store     *stream.Store
}

func (in *streamInput) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&in.from, "from-stream", false, "read the documents of a running daemon's stream")
	f.IntVarP(&in.documents, "limit", "n", 0,
		"with --from-stream: number of documents, from the first in each stream (default all)")
	f.StringVarP(&in.flags.File, "config", "c", "",
		"with --from-stream: the daemon's YAML configuration `file`; - reads standard input")
	in.flags.Override(cmd, "set", "",
		"with --from-stream: override a setting, such as stream.name=DOCS; may be repeated")
	in.flags.RegisterDaemon(cmd)
	in.flags.Override(cmd, "tokenizer", "tokenizer.name",
		"with --from-stream or --documents: gpt2, cl100k_base, o200k_base, none, "+
			"or a tokenizer.json, tokenizer.model or rank `file`")
}

// settle reads the configuration. Sources, and packing settings that no flag sets, are those of the configuration (-c,
// --set), or without one those of the run that the daemon serves.
func (in *streamInput) settle(cmd *cobra.Command, args []string, packing *packingFlags) (config.Config, error) {
	given := cmd.Flags().Changed
	if !in.from {
		for _, name := range []string{"limit", "config", "set", "daemon", "tokenizer"} {
			if given(name) && !(name == "tokenizer" && given("documents")) {
				return config.Config{}, command.Usage(fmt.Errorf("--%s: want --from-stream with it", name))
			}
		}
		return config.Config{}, nil
	}
	switch {
	case len(args) > 0:
		return config.Config{}, command.Usage(fmt.Errorf("--from-stream: want no file argument: %s", args[0]))
	case given("column"):
		return config.Config{}, command.Usage(errors.New("--column: want a file that ends in .parquet"))
	case in.documents < 0:
		return config.Config{}, command.Usage(fmt.Errorf("--limit: %d: want 0 (all) or more", in.documents))
	}
	c, err := in.flags.Load(cmd)
	if err != nil {
		return config.Config{}, err
	}
	if c.Stream.Embedded() {
		c.Stream.URL = cmp.Or(server.HolderURL(c.Stream.Dir), "nats://"+c.Stream.Listen)
	}
	if !given("config") && !given("set") {
		own, err := in.served(cmd.Context(), c, cmd.ErrOrStderr())
		if err != nil || own == nil {
			return c, err
		}
		c.Plan.Packing, c.Plan.Sources, c.Plan.Mix, c.Plan.Steps = own.Packing, own.Sources, own.Mix, own.Steps
	}
	if !given("buckets") && !given("length") {
		if err := checkRowLengths(c.Plan.Steps, "pass those of one phase"); err != nil {
			return c, command.Usage(err)
		}
	}
	packing.like(cmd, &c.Plan.Packing)
	return c, nil
}

// served returns the configuration of the runs over the stream, nil if no run exists.
func (in *streamInput) served(ctx context.Context, c config.Config, stderr io.Writer) (*runconfig.Config, error) {
	store, err := in.open(ctx, c, stderr)
	if err != nil {
		return nil, err
	}
	own, names, err := runadmin.SharedConfig(ctx, store)
	switch {
	case errors.Is(err, runadmin.ErrConfigDiffers):
		return nil, command.Usage(fmt.Errorf("%w: select a run with its configuration, -c FILE", err))
	case own != nil:
		fmt.Fprintf(stderr, "row lengths, pool, max_age and sources without a flag are those of run %s\n",
			strings.Join(names, ", "))
	}
	return own, err
}

// open connects to the servers of a configuration on its first call. Later calls return the same store, which close
// closes.
func (in *streamInput) open(ctx context.Context, c config.Config, stderr io.Writer) (_ *stream.Store, err error) {
	if in.store == nil {
		log := slog.New(command.NewRepeatFilter(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
		in.store, err = command.Connect(ctx, c.Stream, streamWait, log, stream.Open)
	}
	return in.store, err
}

// close closes the connection, if one is open.
func (in *streamInput) close() error {
	if in.store == nil {
		return nil
	}
	return in.store.Close()
}

// tokenizer returns the requested tokenizer, empty for none.
func (in *streamInput) tokenizer() (name string) {
	for _, o := range in.flags.Overrides {
		if o.Path == "tokenizer.name" {
			name = o.Value
		}
	}
	return name
}

// streamWait is the time limit of the first connection to a server.
const streamWait = 30 * time.Second

// read reads the documents' lengths, including end-of-document tokens. It changes nothing on the server. The documents
// of several sources are in the order in which a run with this seed takes them.
func (in *streamInput) read(ctx context.Context, c config.Config, seed uint64, stderr io.Writer) (compared, error) {
	tokens, _, err := daemon.LoadTokenizer(c.Tokenizer)
	if err != nil {
		return compared{}, err
	}
	store, err := in.open(ctx, c, stderr)
	if err != nil {
		return compared{}, err
	}
	tokens.Store = daemon.OpenTokenStore(&c, command.NewLogger(c.Log, stderr))
	defer tokens.Store.Close()
	if err := checkShares(c.Plan.Mix.Share); err != nil && len(c.Plan.Sources) > 1 {
		return compared{}, command.Usage(err)
	}
	mix := &simulation.Mixture{Config: c.Plan.Mixture(), Lengths: map[string][]int32{}}
	mix.Config.Seed = seed
	var names []string
	for _, source := range slices.Sorted(maps.Keys(c.Plan.Sources)) {
		lengths, name, err := in.readSource(ctx, store.Source(source, len(c.Plan.Sources)), tokens, stderr)
		if err != nil {
			return compared{}, err
		}
		if len(c.Plan.Sources) == 1 {
			return compared{lengths: lengths, name: name}, nil
		}
		if c.Plan.Sources[source].Packing != nil {
			return compared{}, command.Usage(fmt.Errorf("source %s has its own packing, and one method packs all sources here: "+
				"want -c with a configuration without sources.%s.packing", source, source))
		}
		mix.Lengths[source] = lengths
		names = append(names, source+" of "+name)
		for _, n := range lengths {
			mix.Tokens += int64(n)
		}
	}
	if !mix.Endless() {
		mix.Tokens = 0
	}
	arrivals, err := mix.Arrivals(ctx)
	if err != nil {
		return compared{}, err
	}
	return compared{lengths: arrivals.Lengths, arrivals: arrivals, name: strings.Join(names, ", ")}, nil
}

// readSource reads the lengths of one source's documents, and describes what it has read.
func (in *streamInput) readSource(ctx context.Context, store *stream.Store, tokens docstream.Tokenization,
	stderr io.Writer) (lengths []int32, name string, err error) {
	documents, err := docstream.OpenReadOnly(ctx, store, tokens)
	if err != nil {
		return nil, "", fmt.Errorf("%w at %s: start the daemon, or name its stream with --set stream.name=NAME", err,
			store.ClientURL())
	}
	progress := command.NewProgress(stderr, "documents of "+store.Config().Name+" read")
	defer progress.Finish()
	return lengthsin.ReadStream(ctx, documents, store.Config().Name, in.documents, func(read, of int) {
		progress.Report(int64(read), int64(of))
	})
}
