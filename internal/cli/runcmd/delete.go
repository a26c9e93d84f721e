package runcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"loaderd/internal/cli/command"
	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/humanize"
	"loaderd/internal/runadmin"
	"loaderd/stream"
	"loaderd/stream/lease"
	"loaderd/stream/planlog"
)

// NewRunCmd returns the command run.
func NewRunCmd() *cobra.Command {
	return command.Group("run", "List, inspect, fork and delete runs",
		`  loaderd run list --daemon /data/loaderd
  loaderd run show --daemon grpc://trainer-0:8815
  loaderd run delete pretrain --daemon /data/loaderd`,
		newRunListCmd(), newRunShowCmd(), newRunExportCmd(), newRunForkCmd(), newRunAuditCmd(), newRunRepairCmd(),
		newRunDeleteCmd())
}

func newRunDeleteCmd() *cobra.Command {
	var flags command.ConfigFlags
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete NAME [flags]",
		Short: "Delete the stored state of a run",
		Long: `Delete the stored state of a run: its plan, its checkpoints, its low watermark
and its leader record. Documents are kept. Documents that only this run retained
are purged when another run over the stream releases documents (serve.retention:
purge).

The command fails while a live daemon leads the run: stop all of its daemons
first. After an interruption, run the same command again to finish the deletion.
On a terminal the command asks for confirmation. Elsewhere it needs --yes.`,
		Example: `  loaderd run delete pretrain --daemon /data/loaderd
  loaderd run delete pretrain -c loaderd.yaml --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := flags.Load(cmd)
			if err != nil {
				return err
			}
			if err := stream.ValidRun(args[0]); err != nil {
				return command.Usage(err)
			}
			c.Run = args[0]
			sure := func(question string) error { return confirm(cmd.InOrStdin(), cmd.ErrOrStderr(), question) }
			if yes {
				sure = func(string) error { return nil }
			}
			return deleteRun(cmd.Context(), c, command.NewLogger(c.Log, cmd.ErrOrStderr()), cmd.OutOrStdout(), sure)
		},
	}
	flags.RegisterStore(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "delete without confirmation")
	return cmd
}

func deleteRun(ctx context.Context, c config.Config, log *slog.Logger, out io.Writer,
	sure func(question string) error) (err error) {
	store, err := command.OpenRunStore(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { err = command.CloseAfter(ctx, store, err) }()
	run, err := runadmin.Describe(ctx, store, c.Run)
	if errors.Is(err, planlog.ErrNoPlan) {
		return fmt.Errorf("cannot find run %s: list the runs with loaderd run list", c.Run)
	}
	if err != nil {
		return err
	}
	if l := run.Leader; l != nil && l.Responds {
		return &lease.HeldError{Run: c.Run, Leader: l.LeaderInfo}
	}
	if err := sure(fmt.Sprintf("Delete run %s, %s, with its plan (%s) and its checkpoints (%s)?", c.Run, describeRun(run),
		humanize.Bytes(int64(run.PlanBytes)), humanize.Bytes(int64(run.CheckpointBytes)))); err != nil {
		return err
	}
	removed, err := runadmin.Remove(ctx, store, c.Run, daemon.ProcessInfo())
	if err != nil {
		return err
	}
	writeRemoved(out, run, removed)
	return nil
}

// confirm asks the user at a terminal for confirmation.
func confirm(in io.Reader, out io.Writer, question string) error {
	if f, ok := in.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return command.Usage(errors.New("cannot ask for confirmation without a terminal: set --yes"))
	}
	return ask(in, out, question)
}

// ask returns nil if the user answers yes.
func ask(in io.Reader, out io.Writer, question string) error {
	fmt.Fprintf(out, "%s [y/N] ", question)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was deleted")
}

func describeRun(r runadmin.RunInfo) string {
	switch r.State {
	case runadmin.Remainder:
		return "whose plan is already deleted"
	case runadmin.NotBegun:
		return "which has not started"
	case runadmin.Unreadable:
		return "whose plan cannot be read"
	}
	var streams []string
	for _, x := range r.Sources {
		streams = append(streams, x.Stream)
	}
	return humanize.Things(int(r.Steps), "step") + " over " + strings.Join(streams, ", ")
}

func writeRemoved(w io.Writer, r runadmin.RunInfo, removed runadmin.Removal) {
	var parts []string
	for _, p := range []struct {
		gone bool
		what string
	}{
		{removed.Plan, fmt.Sprintf("plan (%s)", humanize.Bytes(int64(r.PlanBytes)))},
		{removed.LowWatermark, "low watermark"},
		{removed.Checkpoints, fmt.Sprintf("checkpoints (%s)", humanize.Bytes(int64(r.CheckpointBytes)))},
	} {
		if p.gone {
			parts = append(parts, p.what)
		}
	}
	fmt.Fprintf(w, "deleted run %s: %s\n", r.Run, strings.Join(parts, ", "))
	for _, f := range removed.LowWatermarks {
		if f.Runs == 0 {
			fmt.Fprintf(w, "stream %s: no run needs its documents; they are kept until a run releases them\n",
				f.Stream)
			continue
		}
		fmt.Fprintf(w, "stream %s: documents from %s on are needed by run %s\n", f.Stream, humanize.Count(f.From), f.By)
	}
}
