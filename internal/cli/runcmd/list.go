// Package runcmd implements the commands that show, change, check and delete runs.
package runcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/config"
	"loaderd/internal/humanize"
	"loaderd/internal/runadmin"
	"loaderd/internal/table"
	"loaderd/loader/state"
)

// newRunListCmd returns the command run list.
func newRunListCmd() *cobra.Command {
	var flags command.ConfigFlags
	var asJSON, wide, noHeaders bool
	cmd := &cobra.Command{
		Use:   "list [flags]",
		Short: "List runs with their progress and their leader",
		Long: `List all runs that the server stores, with their state, steps and leader. Other
columns:
  LENGTH             steps that the run will have, as its leader reports;
                     "so far" if more documents may be published
  COMMITTED          the step before which every job has committed
With --wide also:
  DOCUMENTS          the document stream
  LOW WATERMARK      the first document that the run still needs
  PLAN, CHECKPOINTS  their size in bytes

Below a run with several sources, each source has a line.

Nothing is changed. Daemons may serve the runs meanwhile. A ? after a leader
means that it does not respond: it was killed, or it is disconnected.`,
		Example: `  loaderd run list --daemon /data/loaderd
  loaderd run list -c loaderd.yaml --daemon nats://nats-1:4222 --json`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := flags.Load(cmd)
			if err != nil {
				return err
			}
			all, err := listRuns(cmd.Context(), c, command.NewLogger(c.Log, cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(all)
			}
			return writeRuns(cmd.OutOrStdout(), all, wide, noHeaders)
		},
	}
	flags.RegisterStore(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array with one object per run")
	cmd.Flags().BoolVar(&wide, "wide", false, "add columns")
	command.RegisterNoHeaders(cmd, &noHeaders)
	return cmd
}

func listRuns(ctx context.Context, c config.Config, log *slog.Logger) (_ []runadmin.RunInfo, err error) {
	store, err := command.OpenRunStore(ctx, c, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return runadmin.List(ctx, store)
}

func writeRuns(w io.Writer, all []runadmin.RunInfo, wide, noHeaders bool) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no runs")
		return err
	}
	columns := func(narrow []string, more ...string) []string {
		if wide {
			return append(narrow, more...)
		}
		return narrow
	}
	t := table.New(columns([]string{"RUN", "STATE", "STEPS", "LENGTH", "COMMITTED", "LEADER"}, "ID", "DOCUMENTS",
		"LOW WATERMARK", "PLAN", "CHECKPOINTS")...)
	t.NoHeader = noHeaders
	for _, r := range all {
		var only runadmin.SourceInfo // of a run with one source
		several := r.Sources
		if len(r.Sources) == 1 {
			only, several = r.Sources[0], nil
		}
		t.Row(columns([]string{r.Run, stateOf(r), humanize.Count(r.Steps), shortLength(r.Length), countOf(r.Committed),
			leaderOf(r.Leader)}, shortID(r.ID), cmp.Or(only.Stream, "-"), countOf(only.LowWatermark),
			humanize.Bytes(int64(r.PlanBytes)), humanize.Bytes(int64(r.CheckpointBytes)))...)
		for _, x := range several {
			t.Row(columns([]string{"  " + x.Name, stateOfSource(x), "", "", "", ""}, "", cmp.Or(x.Stream, "-"),
				countOf(x.LowWatermark), "", "")...)
		}
	}
	if err := t.Write(w); err != nil {
		return err
	}
	for _, r := range all {
		if r.Problem != "" {
			if _, err := fmt.Fprintf(w, "run %s: %s\n", r.Run, r.Problem); err != nil {
				return err
			}
		}
	}
	return nil
}

// shortID returns the first 8 characters of a run's id, which distinguish it from other runs.
func shortID(id string) string { return cmp.Or(id[:min(len(id), 8)], "-") }

func stateOf(r runadmin.RunInfo) string {
	if r.State == runadmin.Sealed && len(r.Sources) != 1 {
		return "sealed"
	}
	if r.State == runadmin.Sealed {
		state := fmt.Sprintf("sealed at %s", humanize.Count(r.Sources[0].SealedAt))
		if r.SealedBy != "" {
			state += " by " + r.SealedBy
		}
		return state
	}
	return string(r.State)
}

func stateOfSource(s runadmin.SourceInfo) string {
	switch {
	case s.Removed:
		return "removed"
	case s.Sealed:
		return "sealed at " + humanize.Count(s.SealedAt)
	}
	return "open"
}

// shortLength formats the final number of steps of a run, as far as it is known.
func shortLength(l *state.Length) string {
	switch {
	case l == nil || l.Idle:
		return "-"
	case l.Endless:
		return "endless"
	case l.Exact:
		return humanize.Count(l.Steps)
	}
	text := fmt.Sprintf("%s ± %s", humanize.Count(l.Steps), humanize.Count(l.Error))
	if len(l.OpenSources) > 0 {
		text += " so far"
	}
	return text
}

func countOf(n *uint64) string {
	if n == nil {
		return "-"
	}
	return humanize.Count(*n)
}

// leaderOf returns the host and port at which a leader serves readers.
func leaderOf(l *runadmin.Leader) string {
	if l == nil {
		return "-"
	}
	name := l.Host + "/" + strconv.Itoa(l.PID)
	if u, err := url.Parse(l.Flight); err == nil && u.Port() != "" {
		name = net.JoinHostPort(l.Host, u.Port())
	}
	if !l.Responds {
		name += "?"
	}
	return name
}
