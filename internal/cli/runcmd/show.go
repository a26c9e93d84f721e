package runcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/flightclient"
	"loaderd/internal/humanize"
	"loaderd/loader"
	"loaderd/loader/state"
)

// newRunShowCmd returns the command run show.
func newRunShowCmd() *cobra.Command {
	var client command.FlightClient
	var measure, asJSON bool
	cmd := &cobra.Command{
		Use:   "show [flags]",
		Short: "Show the progress and the length of a run",
		Long: `Show the progress of a daemon's run: its steps so far, the jobs that committed,
and its length. The length is the number of steps that the run will have.

The length is exact after the plan has ended or has been measured. It then
changes only if an operator changes the run. Until then it is an estimate from a
sample of the remaining documents, with its error. The true length is outside
the error in one of twenty cases. While a source is not sealed, the length
assumes that the run ends at the documents stored now.

With --measure the daemon that plans the run counts its steps, and the command
waits for the result. The daemon reads and tokenizes every remaining document
once more, in parallel to the run. All sources must be sealed. Runs with few
remaining tokens (serve.measure_tokens) are measured automatically.`,
		Example: `  loaderd run show
  loaderd run show --measure --daemon grpc://trainer-0:8815
  loaderd run show --json | jq .length.steps`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var info loader.Info
			err := client.Ask(cmd.Context(), "info", func(c *flightclient.Client) (err error) {
				if measure {
					err = c.Measure(cmd.Context(), client.Run)
				}
				if err == nil {
					info, err = lookAt(cmd.Context(), c, client.Run, measure)
				}
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(info)
			}
			return writeInfo(cmd.OutOrStdout(), info)
		},
	}
	client.Register(cmd)
	cmd.Flags().BoolVar(&measure, "measure", false, "count the steps of the run, and wait for the result")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the response of the action info as JSON")
	return cmd
}

// lookAgain is the interval at which info queries a run that is being measured.
const lookAgain = 200 * time.Millisecond

// lookAt requests the run's description. If wait is set, it repeats the request until the length is exact.
func lookAt(ctx context.Context, c *flightclient.Client, run string, wait bool) (loader.Info, error) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		info, err := c.Info(ctx, run)
		switch l := info.Length; {
		case err != nil || !wait || l != nil && l.Exact:
			return info, err
		case l != nil && (l.Endless || l.Idle || len(l.OpenSources) > 0):
			return info, errors.New("the run changed during the measurement: " + lengthOf(l))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return info, ctx.Err()
		}
	}
}

func writeInfo(w io.Writer, info loader.Info) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("run", "%s, id %s", info.Run, shortID(info.ID))
	state := "planned"
	if info.Ended {
		state = "planned, complete"
	}
	line("steps", "%s %s; %s committed; oldest readable step: %s", humanize.Count(info.Planned), state,
		humanize.Count(info.Committed), humanize.Count(info.Oldest))
	for _, job := range slices.Sorted(maps.Keys(info.Skipped)) {
		line("skipped", "%s by job %s", humanize.Things(int(info.Skipped[job]), "step"), job)
	}
	for _, job := range slices.Sorted(maps.Keys(info.WorldSizes)) {
		size := info.WorldSizes[job]
		line("world size", "%d ranks of job %s from step %s", size.Ranks, job, humanize.Count(size.Step))
	}
	line("length", "%s", lengthOf(info.Length))
	var names []string
	for _, s := range info.Sources {
		names = append(names, s.Name)
	}
	if len(names) > 0 {
		line("sources", "%s", strings.Join(names, ", "))
	}
	if info.Leader != "" {
		line("leader", "%s", info.Leader)
	}
	return t.Flush()
}

// lengthOf formats the length of a run.
func lengthOf(l *state.Length) string {
	switch {
	case l == nil:
		return "not estimated yet"
	case l.Endless:
		return "endless: a source is read forever"
	case l.Idle:
		return "no end: no source with remaining documents has a weight"
	case l.Exact:
		return humanize.Count(l.Steps) + " steps, exactly"
	}
	text := fmt.Sprintf("%s steps ± %s", humanize.Count(l.Steps), humanize.Count(l.Error))
	if len(l.OpenSources) > 0 {
		text += " for the documents stored now; not sealed: " + strings.Join(l.OpenSources, ", ")
	}
	if l.MeasuredFraction > 0 {
		text += fmt.Sprintf("; measured so far: %.0f %%", 100*l.MeasuredFraction)
	}
	return text
}
