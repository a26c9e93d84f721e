package simulatecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/lengths/lengthsin"
	"loaderd/internal/runadmin"
	"loaderd/packonline"
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
		"with --from-stream: number of documents, from the first in the stream (default all)")
	f.StringVarP(&in.flags.File, "config", "c", "",
		"with --from-stream: the daemon's YAML configuration `file`; - reads standard input")
	in.flags.Override(cmd, "set", "",
		"with --from-stream: override a setting, such as stream.name=DOCS; may be repeated")
	in.flags.RegisterDaemon(cmd)
	in.flags.Override(cmd, "tokenizer", "tokenizer.name",
		"with --from-stream or --documents: gpt2, cl100k_base, o200k_base, none, or a tokenizer.json or rank `file`")
}

// settle reads the configuration. Packing settings that no flag sets are those of the configuration (-c, --set), or
// without one those of the run that the daemon serves.
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
	own := &c.Plan.Packing
	if !given("config") && !given("set") {
		if own, err = in.served(cmd.Context(), c, cmd.ErrOrStderr()); err != nil || own == nil {
			return c, err
		}
	}
	packing.like(cmd, own)
	return c, nil
}

// served returns the packing configuration of the runs over the stream, nil if no run exists.
func (in *streamInput) served(ctx context.Context, c config.Config, stderr io.Writer) (*packonline.Config, error) {
	store, err := in.open(ctx, c, stderr)
	if err != nil {
		return nil, err
	}
	own, names, err := runadmin.Packing(ctx, store)
	switch {
	case errors.Is(err, runadmin.ErrPackingDiffers):
		return nil, command.Usage(fmt.Errorf("%w: select a run with its configuration, -c FILE", err))
	case own != nil:
		fmt.Fprintf(stderr, "row lengths, pool and max_age without a flag are those of run %s\n",
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

// read reads the documents' lengths, including end-of-document tokens. It changes nothing on the server.
func (in *streamInput) read(ctx context.Context, c config.Config,
	stderr io.Writer) (list []int32, name string, err error) {
	tokens, _, err := daemon.LoadTokenizer(c.Tokenizer)
	if err != nil {
		return nil, "", err
	}
	store, err := in.open(ctx, c, stderr)
	if err != nil {
		return nil, "", err
	}
	documents, err := docstream.OpenReadOnly(ctx, store, tokens)
	if err != nil {
		return nil, "", fmt.Errorf("%w at %s: start the daemon, or name its stream with --set stream.name=NAME", err,
			store.ClientURL())
	}
	progress := command.NewProgress(stderr)
	return lengthsin.ReadStream(ctx, documents, c.Stream.Name, in.documents, func(read, of int) {
		progress.Report("%d of %d documents read", read, of)
	})
}
