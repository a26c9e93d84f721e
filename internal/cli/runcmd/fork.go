package runcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/runadmin"
	"loaderd/loader/planrecord"
)

// newRunForkCmd returns the command run fork.
func newRunForkCmd() *cobra.Command {
	var flags command.ConfigFlags
	var step uint64
	var name string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fork --run A --step N --new B [flags]",
		Short: "Start a run from a step of another run",
		Long: `Start a run from a step of another run, with a changed configuration. The new
run plans exactly the tokens that are not in the earlier steps of the other run.
A document that was partly used continues where it was cut. The other run is not
changed.

The configuration of the new run is that of --config and the other flags. The
command prints its differences from the configuration of the other run. Steps of
the new run are numbered from 0. Serve the new run with the same configuration
and --run B.

The new run continues each source at its position in the other run. With an
unchanged configuration it makes the steps of the other run. To find the
positions, the command replays the other run from its newest checkpoint before
the step, or from its beginning.`,
		Example: `  loaderd run fork -c loaderd.yaml --run pretrain --step 120000 \
      --new anneal --set packing.buckets=[8192] --set steps.rows=32
  loaderd serve -c loaderd.yaml --run anneal --set packing.buckets=[8192] \
      --set steps.rows=32`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := flags.Load(cmd)
			if err != nil {
				return err
			}
			if name == c.Run {
				return command.Usage(fmt.Errorf("--new %s: want a name other than that of the run to fork", name))
			}
			return fork(cmd.Context(), c, step, name, asJSON, command.NewLogger(c.Log, cmd.ErrOrStderr()),
				cmd.OutOrStdout())
		},
	}
	flags.RegisterRun(cmd)
	cmd.Flags().Var((*stepFlag)(&step), "step", "first `step` of the old run that the new run does not share")
	cmd.Flags().StringVar(&name, "new", "", "`name` of the new run")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	for _, required := range []string{"run", "step", "new"} {
		_ = cmd.MarkFlagRequired(required)
	}
	return cmd
}

// tellFork prints the step and the documents at which a fork starts.
func tellFork(out io.Writer, h planrecord.Header) {
	fmt.Fprintf(out, "run %s starts at step %d of run %s:\n", h.Run, h.Parent.Step, h.Parent.Run)
	for i, s := range h.Parent.Sources {
		fmt.Fprintf(out, "  source %s: %d documents taken", h.Sources[i].Name, s.Taken)
		if s.Epoch > 0 {
			fmt.Fprintf(out, " of epoch %d", s.Epoch+1)
		}
		fmt.Fprintf(out, ", needed from document %d on\n", s.From)
	}
}

// forkedRun is the JSON output of run fork.
type forkedRun struct {
	Run    string             `json:"run"`
	Parent *planrecord.Parent `json:"parent"`
	// Sources are the names of the sources, in the order of the parent's sources.
	Sources []string `json:"sources"`
	Changed []string `json:"changed"` // differences of the configuration
}

func newForkedRun(h planrecord.Header, changed []string) forkedRun {
	f := forkedRun{Run: h.Run, Parent: h.Parent, Changed: append([]string{}, changed...)}
	for _, s := range h.Sources {
		f.Sources = append(f.Sources, s.Name)
	}
	return f
}

func fork(ctx context.Context, c config.Config, step uint64, name string, asJSON bool, log *slog.Logger,
	out io.Writer) (err error) {
	tokenizing, err := daemon.LoadRunTokenizer(&c, log)
	if err != nil {
		return err
	}
	store, err := command.OpenRunStore(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { err = command.CloseAfter(ctx, store, err) }()
	tokenizing.Store = daemon.OpenTokenStore(&c, log)
	defer tokenizing.Store.Close()
	h, was, err := runadmin.Fork(ctx, store, c.Run, step, name, c.Plan, tokenizing)
	if err != nil {
		return err
	}
	changes := was.Config.Differences(h.Config)
	if asJSON {
		return json.NewEncoder(out).Encode(newForkedRun(h, changes))
	}
	tellFork(out, h)
	if len(changes) > 0 {
		fmt.Fprintf(out, "changed: %s\n", strings.Join(changes, "\n         "))
	} else {
		fmt.Fprintln(out, "configuration unchanged")
	}
	return nil
}
