package runcmd

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/spf13/cobra"

	"loaderd/internal/api"
	"loaderd/internal/cli/command"
	"loaderd/internal/flightclient"
	"loaderd/internal/humanize"
	"loaderd/internal/table"
)

// NewScheduleCmd returns the command schedule.
func NewScheduleCmd() *cobra.Command {
	var client command.FlightClient
	var phases []string
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Show or change the size of steps",
		Long: `Show the phases of the run: the rows of a step, the row lengths if they change,
and where each phase begins.
With --phase, the given phases replace those that have not begun. The change is
recorded in the plan, so that a restart repeats it. It takes effect with the
next document that is planned; steps that are planned already keep their rows.

--phase has the settings of a phase in steps.schedule of a configuration. A
first phase without a start begins now, and ends a ramp in progress. The ranks
of every job that reads must be able to share its rows.`,
		Example: `  loaderd schedule
  loaderd schedule --phase '{rows: 1024, ramp_tokens: 2e9}' --dry-run
  loaderd schedule --phase '{from_step: 5000, tokens: 8388608}'
  loaderd schedule --phase '{from_step: 9000, rows: 64, buckets: [32768]}'`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			change, err := readPhases(phases)
			if err != nil {
				return command.Usage(err)
			}
			var s api.ScheduleResponse
			err = client.Ask(cmd.Context(), "schedule", func(c *flightclient.Client) (err error) {
				s, err = c.Schedule(cmd.Context(), client.Run, change, dryRun)
				return err
			})
			switch {
			case err != nil:
				return err
			case asJSON:
				return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
			case len(change) > 0:
				verb := "changes at"
				if dryRun {
					verb = "would change at"
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "run %s %s step %d at the earliest\n", s.Run, verb, s.Step)
				return err
			}
			return writeSchedule(cmd.OutOrStdout(), s)
		},
	}
	client.Register(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&phases, "phase", nil, "`{...}`: phase that follows the current one; may be repeated")
	f.BoolVar(&dryRun, "dry-run", false, "change nothing; print the first step that could differ")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// readPhases parses phases with the syntax of a configuration file.
func readPhases(phases []string) (out []map[string]any, err error) {
	for _, text := range phases {
		p, err := yaml.Parser().Unmarshal([]byte(text))
		if err != nil || len(p) == 0 || !strings.HasPrefix(strings.TrimSpace(text), "{") {
			return nil, fmt.Errorf("--phase %s: want settings of a phase in braces, such as {from_step: 5000, rows: 1024}", text)
		}
		out = append(out, p)
	}
	return out, nil
}

// writeSchedule writes the phases of a run.
func writeSchedule(w io.Writer, r api.ScheduleResponse) error {
	s := r.Schedule
	fmt.Fprintf(w, "run %s: %s tokens in %s steps; the next step has %s\n\n", r.Run, humanize.Count(s.Tokens),
		humanize.Count(int64(s.Steps-s.Inherited)), stepSize(s.Rows(), s.Phases[s.Current()].Buckets))
	var phases []api.SchedulePhase
	for i, p := range s.Phases {
		phases = append(phases, api.SchedulePhase{Index: i, ScheduledPhase: p})
	}
	return phaseTable(phases).Write(w)
}

// phaseTable returns a table of phases.
func phaseTable(phases []api.SchedulePhase) *table.Table {
	changesBuckets := slices.ContainsFunc(phases, func(p api.SchedulePhase) bool { return len(p.Buckets) > 0 })
	columns := []string{"PHASE", "FROM", "RAMP", "ROWS", "FIRST STEP"}
	if changesBuckets {
		columns = append(columns, "BUCKETS")
	}
	t := table.New(columns...)
	for _, p := range phases {
		from, ramp, first := "the start", "", ""
		switch {
		case p.FromStep > 0:
			from = fmt.Sprintf("step %d", p.FromStep)
		case p.FromTokens > 0:
			from = humanize.Count(int64(p.FromTokens)) + " tokens"
		}
		switch {
		case p.RampSteps > 0:
			ramp = humanize.Count(p.RampSteps) + " steps"
		case p.RampTokens > 0:
			ramp = humanize.Count(int64(p.RampTokens)) + " tokens"
		}
		if p.FirstStep != nil {
			first = humanize.Count(int64(*p.FirstStep))
		}
		row := []string{fmt.Sprint(p.Index), from, ramp, humanize.Range(p.StepRows), first}
		if changesBuckets {
			buckets := "packing.buckets"
			if len(p.Buckets) > 0 {
				buckets = humanize.Range(p.Buckets)
			}
			row = append(row, buckets)
		}
		t.Row(row...)
	}
	return t
}
