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

// NewRepairCmd returns the command repair.
func NewRepairCmd() *cobra.Command {
	var flags command.ConfigFlags
	var name string
	var before uint64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "repair --run A [--new B] [flags]",
		Short: "Copy what is right of a damaged plan into a usable one, and say what is lost",
		Long: `Look at a run's plan that is damaged (a record that cannot be read or cannot stand where it does) or has lost its end (the run's stored
checkpoints prove that it was longer), and say what of it can be used, what is lost, and whether steps that are planned again will be those
that were served. With --new, copy what can be used, and the checkpoints that fit, into a new run.

A record that somebody else wrote may look right: --before names the first that is not to be used.

The damaged plan is never changed. Stop the run's daemon first. Serve the copy with the same configuration and --run B; trainers that hold
the old run's name go on with it as they are. A copy that was broken off is finished by the same command; no daemon serves it before.
The exit status is 0 for a plan that is whole, and when a copy is made; 1 for a damaged one without --new.`,
		Example: `  loaderd repair -c loaderd.yaml --run pretrain
  loaderd repair -c loaderd.yaml --run pretrain --new pretrain-2
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
					return command.Usage(fmt.Errorf("--new %s: want another name than that of the damaged run, which stays as it is",
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
	flags.Register(cmd)
	cmd.Flags().StringVar(&name, "new", "",
		"`name` of the run that is to go on with the copy; without it nothing is copied")
	cmd.Flags().Uint64Var(&before, "before", 0, "use nothing from this `record` on: one that can be read, and that no "+
		"daemon wrote; 0 leaves it to the records")
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
		return d, fmt.Errorf("the plan of run %s is damaged: copy what can be used with --new NAME", c.Run)
	}
	progress := command.NewProgress(stderr)
	if err := run.Copy(ctx, name, func(n uint64) {
		progress.Report("%d of %d records copied", n, d.Records)
	}); err != nil {
		return d, err
	}
	fmt.Fprintf(out, "run %s is a usable copy; the plan of run %s is as it was. Serve it with the same configuration "+
		"and --run %s.\n", name, c.Run, name)
	return d, nil
}

func writeDamage(w io.Writer, d maintenance.Damage) {
	if d.Cause == "" {
		fmt.Fprintf(w, "the plan of run %s is whole: %s records, %s steps\n", d.Run, humanize.Count(d.Records),
			humanize.Count(d.Steps))
		return
	}
	fmt.Fprintf(w, "the plan of run %s is damaged: %s\n  usable   %s records, with %s steps\n  it had   %s records, "+
		"with %s steps, at least\n",
		d.Run, d.Cause, humanize.Count(d.Records), humanize.Count(d.Steps), humanize.Count(d.FormerRecords),
		humanize.Count(d.FormerSteps))
	for _, l := range d.LostControls {
		where := "no record is left, a checkpoint tells of it"
		if l.Record > 0 {
			where = fmt.Sprintf("record %d", l.Record)
		}
		fmt.Fprintf(w, "  lost     %s (%s)\n", l.Description, where)
	}
	if d.UnreadableRecords > 0 {
		fmt.Fprintf(w, "  unknown  what %s more of the lost records were: steps, drains, commits\n",
			humanize.Count(d.UnreadableRecords))
	}
	if d.HasSameSteps() {
		fmt.Fprintf(w, "Steps from %d on are planned again and will be the same as before: only steps and keepers' words "+
			"are lost.\n", d.Steps)
		return
	}
	fmt.Fprintf(w, "Steps from %d on are planned again and may differ from those that were served: "+
		"resume trainers from a checkpoint at that step or before it, or restore the plan's stream from a backup.\n", d.Steps)
}
