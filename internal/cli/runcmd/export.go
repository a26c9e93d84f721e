package runcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/export"
	"loaderd/internal/flightclient"
	"loaderd/internal/humanize"
)

// newRunExportCmd returns the command run export.
func newRunExportCmd() *cobra.Command {
	var client command.FlightClient
	var options export.Options
	var steps, format string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "export --format parquet|arrow|mds|npy --out DIR",
		Short: "Export steps of a run to files",
		Long: `Export steps of a run from its daemon to files. The files have all columns that
a reader can request. The export can be archived, shared, and used for training
without a daemon (docs/how-to/import-export.md). The first columns of a row are
its step, its position in the step and its bucket. Rows of several buckets are
in the same files.

The folder has a manifest.json with run, plan, steps, columns, and the files
with their SHA-256. Finished files are kept. The same command continues where it
stopped, and with more steps it appends. A folder of another run, plan or format
is rejected. The command waits for steps that are not planned yet.

In Python, loaderd.frozen.Frozen reads such a folder and returns the steps that
loaderd.Client returns.`,
		Example: `  loaderd run export --steps 0:1000 --format parquet --out frozen/
  loaderd run export --format npy --columns input_ids,labels --out arrays/`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Format, options.Run = export.Format(format), client.Run
			if err := stepRange(steps, &options); err != nil {
				return command.Usage(fmt.Errorf("--steps: %w", err))
			}
			if err := options.Validate(); err != nil {
				return command.Usage(fmt.Errorf("--%w", err))
			}
			options.OnPart = func(p export.Part) {
				fmt.Fprintf(cmd.ErrOrStderr(), "steps %d to %d: %s rows\n", p.First, p.First+p.Steps-1, humanize.Count(p.Rows))
			}
			var m *export.Manifest
			err := client.Ask(cmd.Context(), "export", func(c *flightclient.Client) (err error) {
				m, err = export.Run(cmd.Context(), c, options)
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(m)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), exportText(m, options.Dir))
			return err
		},
	}
	client.Register(cmd)
	f := cmd.Flags()
	f.StringVar(&steps, "steps", "",
		"`A:B`: steps from A to B, without B; without A from the oldest step, without B to the last planned one")
	f.StringVar(&format, "format", "", "parquet, arrow, mds or npy")
	f.StringVar(&options.Dir, "out", "", "output `folder`")
	f.Uint64Var(&options.FileSteps, "file-steps", 100, "steps per file")
	f.StringSliceVar(&options.Columns, "columns", nil,
		"columns of a ticket, such as input_ids,labels (default: all columns of the run)")
	f.BoolVar(&asJSON, "json", false, "print the manifest as JSON")
	cobra.CheckErr(errors.Join(cmd.MarkFlagRequired("format"), cmd.MarkFlagRequired("out")))
	return cmd
}

// stepRange parses A:B.
func stepRange(text string, o *export.Options) (err error) {
	from, to, found := strings.Cut(text, ":")
	if text != "" && !found {
		return fmt.Errorf("%q: want A:B", text)
	}
	if o.FromOldest = from == ""; !o.FromOldest {
		if o.First, err = strconv.ParseUint(from, 10, 62); err != nil {
			return fmt.Errorf("%q: want a step number before the colon", text)
		}
	}
	if to != "" {
		if o.End, err = strconv.ParseUint(to, 10, 62); err != nil || o.End <= o.First {
			return fmt.Errorf("%q: want a larger number after the colon", text)
		}
	}
	return nil
}

func exportText(m *export.Manifest, dir string) string {
	var rows, bytes int64
	for _, p := range m.Parts {
		rows += p.Rows
		for _, f := range p.Files {
			bytes += f.Bytes
		}
	}
	return fmt.Sprintf("%s has steps %d to %d of run %s: %s rows in %s, %s", dir, m.First, m.End-1, m.Run,
		humanize.Count(rows),
		humanize.Things(len(m.Parts), "part"), humanize.Bytes(bytes))
}
