package runcmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"loaderd/internal/api"
	"loaderd/internal/cli/command"
	"loaderd/internal/flightclient"
	"loaderd/internal/humanize"
	"loaderd/internal/table"
	"loaderd/internal/top"
	"loaderd/loader/diagnosis"
	"loaderd/loader/state"
)

// NewStatusCmd returns the command status.
func NewStatusCmd() *cobra.Command {
	var client command.FlightClient
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status [flags]",
		Short: "Show the state and the figures of a run",
		Long: `Show the state of a daemon's run: a summary sentence, what to do, the stages
between producers and trainers, sources, ranks, jobs and daemons. Every daemon
of the run returns the same state.

The exit status is 0 if the run makes progress or has ended, 4 if it waits for
documents, ranks or another daemon, and 5 if something is broken. It is 6 if the
daemon cannot be reached.`,
		Example: `  loaderd status
  loaderd status --daemon grpc+tls://trainer-0:8815 --tls-ca ca.pem \
      --token-file token
  loaderd status --json | jq -r .verdict.sentence`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s api.Status
			err := client.Ask(cmd.Context(), "status", func(c *flightclient.Client) (err error) {
				s, err = c.Status(cmd.Context(), client.Run)
				return err
			})
			switch {
			case err != nil:
				return err
			case asJSON:
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(s)
			default:
				err = writeStatus(cmd.OutOrStdout(), s)
			}
			if err != nil {
				return err
			}
			switch s.Verdict.Health {
			case diagnosis.Waiting:
				return command.ExitStatus{Code: command.ExitWaiting}
			case diagnosis.Failing:
				return command.ExitStatus{Code: command.ExitFailing}
			}
			return nil
		},
	}
	client.Register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the response of the action status as JSON")
	return cmd
}

func writeStatus(w io.Writer, s api.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s\n", s.Verdict.Sentence)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	if s.Verdict.Detail != "" {
		line("details", "%s", s.Verdict.Detail)
	}
	if s.Verdict.Advice != "" {
		line("what to do", "%s", s.Verdict.Advice)
	}
	line("run", "%s, id %s", s.Run, shortID(s.ID))
	steps := humanize.Count(s.Planned) + " planned"
	if s.Sent != nil && s.Consumed != nil {
		steps += fmt.Sprintf(", %s sent, %s consumed", humanize.Count(*s.Sent), humanize.Count(*s.Consumed))
	}
	line("steps", "%s, %s committed", steps, humanize.Count(s.Committed))
	writeWorldSizes(line, s.JobDetails)
	length := lengthOf(s.Length)
	if s.EndsIn != nil {
		length += "; last step read in about " + humanize.Time(time.Duration(*s.EndsIn*float64(time.Second)))
	}
	line("length", "%s", length)
	if s.Schedule != nil {
		line("step size", "%s", scheduleOf(s.Schedule))
	}
	line("padding", "%.2f %%, %.1f %% of the documents split", 100*s.Packing.Padding, 100*s.Packing.Split)
	if x := s.FullestStream(); x != nil {
		line("stored", "%s", storedIn(x))
	}
	for _, x := range s.Flow {
		line(x.Name, "%s%s", stageOf(x), map[bool]string{true: "  <- limits"}[x.Bottleneck])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	ranks := rankTable(s)
	phases := table.New()
	if s.Schedule != nil {
		phases = phaseTable(s.Schedule.Phases)
	}
	for _, t := range []*table.Table{sourceTable(s), pullTable(s), phases, ranks, commitTable(s), daemonTable(s),
		skippedTable(s), filterTable(s), deadTable(s)} {
		if t.IsEmpty() {
			continue
		}
		fmt.Fprintln(w)
		if err := t.Write(w); err != nil {
			return err
		}
		if n := s.RankCount - len(s.Ranks); t == ranks && n > 0 {
			fmt.Fprintf(w, "and %s with less lag\n", humanize.Things(n, "rank"))
		}
		if t == phases && len(s.Schedule.Phases) < s.Schedule.PhaseCount {
			fmt.Fprintln(w, "loaderd schedule prints all phases")
		}
	}
	return nil
}

// writeWorldSizes writes the world sizes that jobs have agreed on, and the changes that wait for ranks.
func writeWorldSizes(line func(name, format string, args ...any), d api.JobDetails) {
	for _, j := range d.Jobs {
		if j.SinceStep != nil {
			line("world size", "%d ranks of job %s from step %s", j.World, j.Job, humanize.Count(*j.SinceStep))
		}
	}
	for _, r := range d.Resizes {
		line("pending resize", "%s", r.Sentence)
	}
}

// storedIn formats the fill level of a document stream.
func storedIn(f *state.StreamFill) string {
	text := fmt.Sprintf("%s in stream %s", state.Quota{Bytes: f.Bytes, MaxBytes: f.MaxBytes}, f.Name)
	switch {
	case f.Account != nil && f.Account.Full:
		text += fmt.Sprintf("; its JetStream account is full (%s)", f.Account)
	case f.Full:
		text += ", full"
	case f.FullInSeconds != nil:
		text += ", full in about " + humanize.Time(time.Duration(*f.FullInSeconds*float64(time.Second)))
	}
	return text
}

// stageOf formats the fill level and the output of a stage.
func stageOf(x api.Stage) string {
	number := func(v float64) string {
		if x.Unit == "bytes" {
			return humanize.Bytes(int64(v))
		}
		return humanize.Count(int64(v)) + " " + x.Unit
	}
	text := number(x.Value)
	if x.Limit > 0 {
		text += " of " + strings.TrimSuffix(number(x.Limit), " "+x.Unit)
	}
	if x.Rate > 0 {
		text += fmt.Sprintf(", %s %s/s", humanize.Short(x.Rate), x.RateUnit)
	}
	return text
}

func sourceTable(s api.Status) *table.Table {
	t := table.New("SOURCE", top.TargetColumn(s), "SHARE", "RECENT", "TOKENS", "EPOCH", "STATE")
	for _, x := range s.Sources {
		t.Row(x.Name, percent(x.Target), top.FormatShare(x.Share), top.FormatShare(x.Recent),
			humanize.Short(float64(x.Tokens)), fmt.Sprintf("%d of %s", x.Epoch+1, x.Epochs), top.SourceState(x, s.Time))
	}
	return t
}

func pullTable(s api.Status) *table.Table {
	t := table.New("PULLED", "DOCUMENTS", "LEFT OUT", "BYTES", "STATE")
	for _, x := range s.Pulls {
		t.Row(cmp.Or(x.Source, "documents"), humanize.Count(x.Documents), humanize.Count(x.LeftOut),
			humanize.Bytes(x.BytesRead)+" of "+humanize.Bytes(x.Bytes), x.Says)
	}
	return t
}

func rankTable(s api.Status) *table.Table {
	columns := []string{"JOB", "RANK", "STATE", "SENT", "CONSUMED", "LAG", "WAIT P50", "P99", "BYTES/S"}
	if len(s.Daemons) > 1 {
		columns = append(columns, "DAEMON")
	}
	t := table.New(columns...)
	for _, r := range s.Ranks {
		cells := []string{r.Job, fmt.Sprintf("%d of %d", r.Rank, r.World), top.RankState(r), humanize.Count(r.Sent),
			top.FormatConsumed(r), humanize.Count(r.Lag), top.FormatWait(r.WaitP50), top.FormatWait(r.WaitP99),
			humanize.Bytes(int64(r.Bytes))}
		if len(s.Daemons) > 1 {
			cells = append(cells, r.Daemon)
		}
		t.Row(cells...)
	}
	return t
}

func commitTable(s api.Status) *table.Table {
	columns := []string{"JOB", "COMMITTED"}
	hasSkips := slices.ContainsFunc(s.Commits, func(c api.JobCommit) bool { return c.Skipped > 0 })
	if hasSkips {
		columns = append(columns, "SKIPPED")
	}
	t := table.New(columns...)
	for _, x := range s.Commits {
		cells := []string{x.Job, humanize.Count(x.Step)}
		if hasSkips {
			cells = append(cells, humanize.Count(x.Skipped))
		}
		t.Row(cells...)
	}
	return t
}

func daemonTable(s api.Status) *table.Table {
	t := table.New("DAEMON", "RANKS", "FLIGHT", "PAGE", "STATE")
	for _, d := range s.Daemons {
		state := ""
		switch {
		case d.IsLeader:
			state = fmt.Sprintf("leader, term %d", d.Term)
		case d.SilentSeconds > 5:
			state = "no heartbeat for " + humanize.Time(time.Duration(d.SilentSeconds*float64(time.Second)))
		}
		t.Row(d.Name, humanize.Count(d.Ranks), cmp.Or(d.Flight, "-"), cmp.Or(d.HTTP, "-"), state)
	}
	return t
}

// scheduleOf describes the size of the next step, and when it changes.
func scheduleOf(s *api.ScheduleStatus) string {
	text := fmt.Sprintf("%s, phase %d of %d", stepSize(s.Rows, s.Buckets), s.Phase, s.PhaseCount-1)
	c := s.NextChange
	if c == nil {
		return text + ", the last"
	}
	left := humanize.Short(float64(c.Tokens)) + " tokens"
	if c.Steps > 0 {
		left = humanize.Things(int(c.Steps), "step")
	}
	text += fmt.Sprintf("; %s in %s", stepSize(c.Rows, c.Buckets), left)
	if c.Phase > s.Phase {
		text += fmt.Sprintf(" (phase %d)", c.Phase)
	}
	return text
}

// stepSize formats the rows of a step per bucket, and their lengths if these are known.
func stepSize(rows, buckets []int) string {
	text := humanize.Range(rows) + " rows"
	if len(buckets) > 0 {
		text += " of " + humanize.Range(buckets) + " tokens"
	}
	return text
}

// shownFilter is the maximum length of an expression in a table, in characters.
const shownFilter = 80

func filterTable(s api.Status) *table.Table {
	t := table.New("FILTERED", "DOCUMENTS OF", "WHERE")
	for _, x := range s.Filters {
		source, where := "all sources", []rune(cmp.Or(x.Where, "-"))
		if x.Source != "" {
			source = "source " + x.Source
		}
		if len(where) > shownFilter {
			where = append(where[:shownFilter], []rune("...")...)
		}
		t.Row(humanize.Count(x.Documents), source, string(where))
	}
	return t
}

func skippedTable(s api.Status) *table.Table {
	t := table.New("SKIPPED", "REASON", "WHAT TO DO")
	for _, x := range s.Skipped {
		t.Row(humanize.Count(x.Documents), string(x.Reason)+": "+x.Text, x.Do)
	}
	return t
}

func deadTable(s api.Status) *table.Table {
	t := table.New("DEAD LETTERS", "NUMBER", "NEWEST")
	for _, x := range s.Dead.Reasons {
		newest := ""
		if len(x.Samples) > 0 {
			newest = x.Samples[0].Problem
		}
		t.Row(x.Reason, humanize.Count(x.Letters), newest)
	}
	return t
}
