package runcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/humanize"
	"loaderd/internal/runadmin"
	"loaderd/loader/maintenance"
	"loaderd/stream"
)

// newRunRepairCmd returns the command run repair.
func newRunRepairCmd() *cobra.Command {
	var flags command.ConfigFlags
	var name string
	var before uint64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "repair --run A [--new B] [flags]",
		Short: "Copy the usable part of a damaged plan to a new run",
		Long: `Inspect a damaged plan of a run, and with --new copy its usable part to a new
run. A plan is damaged if a record is unreadable or invalid at its position, or
if stored checkpoints prove that its end is missing. The command reports what
can be used, what is lost, and whether replayed steps will equal
those that were served. The copy includes the checkpoints that match.

A record that another program wrote may look valid. --before names the first
record that must not be used.

The damaged plan is never changed. Stop the run's daemon first. Serve the copy
with the same configuration and --run B. Trainers that use the old run's name
continue without a change. After an interruption, run the same command again to
finish the copy. No daemon serves an unfinished copy. The exit status is 0 for
an undamaged plan, and after a copy. It is 1 for a damaged plan without --new.`,
		Example: `  loaderd run repair -c loaderd.yaml --run pretrain
  loaderd run repair -c loaderd.yaml --run pretrain --new pretrain-2
  loaderd serve -c loaderd.yaml --run pretrain-2`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := flags.Load(cmd)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("new") {
				if err := stream.ValidRun(name); err != nil {
					return command.Usage(fmt.Errorf("--new: %w", err))
				}
				if name == c.Run {
					return command.Usage(fmt.Errorf("--new %s: want a name other than that of the damaged run, which is not changed",
						name))
				}
			}
			out := cmd.OutOrStdout()
			if asJSON {
				out = io.Discard
			}
			d, err := repair(cmd.Context(), c, name, before, command.NewLogger(c.Log, cmd.ErrOrStderr()), out, cmd.ErrOrStderr())
			if asJSON && d.Run != "" {
				err = errors.Join(err, json.NewEncoder(cmd.OutOrStdout()).Encode(d))
			}
			return err
		},
	}
	flags.RegisterRun(cmd)
	cmd.Flags().StringVar(&name, "new", "",
		"`name` of the run that continues with the copy; without it nothing is copied")
	cmd.Flags().Uint64Var(&before, "before", 0,
		"first `record` not to use, a readable one that no daemon wrote; 0: use all valid records")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	_ = cmd.MarkFlagRequired("run")
	return cmd
}

func repair(ctx context.Context, c config.Config, name string, before uint64, log *slog.Logger, out,
	stderr io.Writer) (d maintenance.Damage, err error) {
	store, err := command.OpenRunStore(ctx, c, log)
	if err != nil {
		return d, err
	}
	defer func() { err = command.CloseAfter(ctx, store, err) }()
	run, err := runadmin.Inspect(ctx, store, c.Run, daemon.ProcessInfo(), before)
	if run != nil {
		d = run.Damage
	}
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	writeDamage(out, d)
	switch {
	case d.Cause == "":
		return d, nil
	case name == "":
		return d, fmt.Errorf("the plan of run %s is damaged: copy its usable part with --new NAME", c.Run)
	}
	progress := command.NewProgress(stderr, "records copied")
	defer progress.Finish()
	if err := run.Copy(ctx, name, func(n uint64) {
		progress.Report(int64(n), int64(d.Records))
	}); err != nil {
		return d, err
	}
	fmt.Fprintf(out, "run %s is a usable copy; the plan of run %s is unchanged. Serve the copy with the same "+
		"configuration and --run %s.\n", name, c.Run, name)
	return d, nil
}

func writeDamage(w io.Writer, d maintenance.Damage) {
	if d.Cause == "" {
		fmt.Fprintf(w, "the plan of run %s is undamaged: %s records, %s steps\n", d.Run, humanize.Count(d.Records),
			humanize.Count(d.Steps))
		return
	}
	fmt.Fprintf(w, "the plan of run %s is damaged: %s\n  usable   %s records, with %s steps\n  before   at least "+
		"%s records, with %s steps\n",
		d.Run, d.Cause, humanize.Count(d.Records), humanize.Count(d.Steps), humanize.Count(d.FormerRecords),
		humanize.Count(d.FormerSteps))
	for _, l := range d.LostControls {
		where := "known from a checkpoint, the record is missing"
		if l.Record > 0 {
			where = fmt.Sprintf("record %d", l.Record)
		}
		fmt.Fprintf(w, "  lost     %s (%s)\n", l.Description, where)
	}
	if d.UnreadableRecords > 0 {
		fmt.Fprintf(w, "  unknown  %s more lost records: steps, flushes, commits\n",
			humanize.Count(d.UnreadableRecords))
	}
	if d.HasSameSteps() {
		fmt.Fprintf(w,
			"Steps from %d on are planned again and will be the same as before: only steps and commits are lost.\n", d.Steps)
		return
	}
	fmt.Fprintf(w, "Steps from %d on are planned again and may differ from those that were served: "+
		"resume trainers from a checkpoint at or before that step, or restore the plan's stream from a backup.\n", d.Steps)
}
