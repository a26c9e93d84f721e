package runcmd

import (
	"context"
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

// NewForkCmd returns the command fork.
func NewForkCmd() *cobra.Command {
	var flags command.ConfigFlags
	var step uint64
	var name string
	cmd := &cobra.Command{
		Use:   "fork --run A --step N --new B [flags]",
		Short: "Begin a run where a step of another run begins, with a changed configuration",
		Long: `Begin a run where a step of another run begins, with a changed configuration. Every token that the other run's steps before that one do
not hold is planned, and no other: documents that were used in part go on where they were cut. The other run stays as it is.

The configuration of the new run is that of --config and the other flags; what differs from the other run's is printed. Steps of the new
run count from 0. Serve it with the same configuration and --run B.

The new run goes on with each source where it is; with an unchanged configuration it makes the steps of the other run. To find out where that is the
other run is planned again, from the newest of its checkpoints before the step, or from its beginning.`,
		Example: `  loaderd fork -c loaderd.yaml --run pretrain --step 120000 --new anneal --set packing.buckets=[8192] --set steps.rows=32
  loaderd serve -c loaderd.yaml --run anneal --set packing.buckets=[8192] --set steps.rows=32`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := flags.Load(cmd)
			if err != nil {
				return err
			}
			if name == c.Run {
				return command.Usage(fmt.Errorf("--new %s: want another name than that of the run to fork", name))
			}
			return fork(cmd.Context(), c, step, name, command.NewLogger(c.Log, cmd.ErrOrStderr()), cmd.OutOrStdout())
		},
	}
	flags.Register(cmd)
	cmd.Flags().Var((*stepFlag)(&step), "step", "the first `step` of the old run that the new one does not share")
	cmd.Flags().StringVar(&name, "new", "", "`name` of the new run")
	for _, required := range []string{"run", "step", "new"} {
		_ = cmd.MarkFlagRequired(required)
	}
	return cmd
}

// tellFork prints the step and the documents at which a fork begins.
func tellFork(out io.Writer, h planrecord.Header) {
	fmt.Fprintf(out, "run %s begins where step %d of run %s does:\n", h.Run, h.Parent.Step, h.Parent.Run)
	for i, s := range h.Parent.Sources {
		fmt.Fprintf(out, "  source %s: %d documents taken", h.Sources[i].Name, s.Taken)
		if s.Epoch > 0 {
			fmt.Fprintf(out, " of epoch %d", s.Epoch+1)
		}
		fmt.Fprintf(out, ", needed from document %d on\n", s.From)
	}
}

func fork(ctx context.Context, c config.Config, step uint64, name string, log *slog.Logger, out io.Writer) (err error) {
	tokenizing, err := daemon.LoadRunTokenizer(&c, log)
	if err != nil {
		return err
	}
	store, err := command.OpenRunStore(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { err = command.CloseAfter(ctx, store, err) }()
	h, was, err := runadmin.Fork(ctx, store, c.Run, step, name, c.Plan, tokenizing)
	if err != nil {
		return err
	}
	tellFork(out, h)
	if changes := was.Config.Differences(h.Config); len(changes) > 0 {
		fmt.Fprintf(out, "changed: %s\n", strings.Join(changes, "\n         "))
	} else {
		fmt.Fprintln(out, "nothing in the configuration changed")
	}
	return nil
}
