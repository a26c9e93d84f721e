package runcmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"loaderd/internal/api"
	"loaderd/internal/cli/command"
	"loaderd/internal/flightclient"
	"loaderd/internal/humanize"
	"loaderd/internal/table"
)

// NewFilterCmd returns the command filter.
func NewFilterCmd() *cobra.Command {
	var client command.FlightClient
	var source, where string
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "filter",
		Short: "Show or change the filters of documents",
		Long: `Show the filters of documents: that of all documents (documents.where), those of
sources (sources.NAME.where), and the number of documents that they rejected.
With --where a filter is replaced. The change takes effect with the next
document that is planned, on all ranks at the same step. The plan records the
change, so that a restart repeats it. Buffered documents were taken before the
change and are sent first.

The expression is as in the configuration, see the reference of documents.where.
An empty expression removes the filter.`,
		Example: `  loaderd filter
  loaderd filter --where 'tokens >= 64 && meta.lang in ["en", "de"]'
  loaderd filter --source web --where 'meta.quality > 0.5' --dry-run
  loaderd filter --source web --where ''`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			change := api.FilterRequest{Run: api.Run{Run: client.Run}, Source: source, DryRun: dryRun}
			if cmd.Flags().Changed("where") {
				change.Where = &where
			} else if source != "" || dryRun {
				return command.Usage(fmt.Errorf("--source and --dry-run need --where"))
			}
			var f api.FilterResponse
			err := client.Ask(cmd.Context(), "filter", func(c *flightclient.Client) (err error) {
				f, err = c.Filter(cmd.Context(), change)
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(f)
			}
			return writeFilters(cmd.OutOrStdout(), f, change.Where != nil)
		},
	}
	client.Register(cmd)
	f := cmd.Flags()
	f.StringVar(&where, "where", "", "new `expression`; empty for no filter")
	f.StringVar(&source, "source", "", "`name` of the source whose filter is replaced; without it, that of all documents")
	f.BoolVar(&dryRun, "dry-run", false, "change nothing; check the expression and print the first step that could differ")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// writeFilters writes the filters in effect, or after a change.
func writeFilters(w io.Writer, f api.FilterResponse, changed bool) error {
	switch {
	case f.DryRun:
		fmt.Fprintf(w, "run %s: the filters would change at step %d at the earliest\n\n", f.Run, f.Step)
	case changed:
		fmt.Fprintf(w, "run %s: the filters change at step %d at the earliest\n\n", f.Run, f.Step)
	default:
		fmt.Fprintf(w, "run %s: filters have rejected %s\n\n", f.Run,
			humanize.Of(int(f.Rejected), int(f.Documents), "document"))
	}
	t := table.New("DOCUMENTS OF", "WHERE")
	t.Row("all sources", cmp.Or(f.Where, "-"))
	for _, name := range slices.Sorted(maps.Keys(f.Sources)) {
		t.Row("source "+name, f.Sources[name])
	}
	return t.Write(w)
}
