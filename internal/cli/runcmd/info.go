package runcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// NewInfoCmd returns the command info.
func NewInfoCmd() *cobra.Command {
	var client command.FlightClient
	var measure, asJSON bool
	cmd := &cobra.Command{
		Use:   "info [flags]",
		Short: "Describe a run: how far it is, and how many steps it will have",
		Long: `Describe the run of a daemon: its steps so far, who keeps checkpoints of it, and its length: how many steps it will have.

The length is exact once the plan has ended, or has been measured: then only a change that somebody makes alters it. Until then it is an estimate by a
sample of the documents that are left, with its error: the truth lies further off in one of twenty cases. While something is not sealed, it is the length
that the run would have if everything ended behind the documents that are stored now.

--measure has the daemon that plans the run count its steps, and waits for it: every document that is left is read and tokenized once more, beside the run.
It takes a run of which everything is sealed. Runs with few tokens left (serve.measure_tokens) are measured without being asked.`,
		Example: `  loaderd info
  loaderd info --measure --flight grpc://trainer-0:8815
  loaderd info --json | jq .length.steps`,
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
	cmd.Flags().BoolVar(&measure, "measure", false, "have the steps of the run counted, and wait for the number")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write the answer of the action info")
	return cmd
}

// ensureTimeout is the interval at which info queries a run that is being measured.
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
			return info, errors.New("the run was changed while it was measured: " + lengthOf(l))
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
		state = "planned, and none follows"
	}
	line("steps", "%s %s; %s committed; the oldest to be read is %s", humanize.Count(info.Planned), state,
		humanize.Count(info.Committed), humanize.Count(info.Oldest))
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
		return "not known yet"
	case l.Endless:
		return "endless: a source is read for ever"
	case l.Idle:
		return "no end: sources have documents left, and none of them a weight"
	case l.Exact:
		return humanize.Count(l.Steps) + " steps, exactly"
	}
	text := fmt.Sprintf("%s steps, give or take %s", humanize.Count(l.Steps), humanize.Count(l.Error))
	if len(l.OpenSources) > 0 {
		text += ", with what is stored now; not sealed: " + strings.Join(l.OpenSources, ", ")
	}
	if l.MeasuredFraction > 0 {
		text += fmt.Sprintf("; being measured: %.0f %%", 100*l.MeasuredFraction)
	}
	return text
}
