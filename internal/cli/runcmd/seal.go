package runcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"loaderd/internal/api"
	"loaderd/internal/cli/command"
	"loaderd/internal/flightclient"
)

// NewSealCmd returns the command seal.
func NewSealCmd() *cobra.Command {
	var client command.FlightClient
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "seal [SOURCE]",
		Short: "End a run, or one of its sources, at its last document",
		Long: `End a run at the current last document of each of its sources. Buffered
documents are packed, and the last step is padded or dropped (steps.last). Every
rank's stream ends at the same step. The plan records the decision, so that a
restart repeats it. Documents published later belong to other runs. Sealing
twice changes nothing.

The run ends when its sources are used up. With the name of a SOURCE, the
command ends only that source. When the source is used up, its weight goes to
the others. With epochs set, the source is read again.`,
		Example: `  loaderd publish corpus/ && loaderd seal
  loaderd seal --daemon grpc://trainer-0:8815 --run pretrain-7
  loaderd seal math`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return record(&client, cmd, asJSON, "seal", (*flightclient.Client).Seal, "run %s ends at document %d\n",
					"run %s ends when its sources are used up, each at its current last document: %s\n")
			}
			seal := func(c *flightclient.Client, ctx context.Context, run string) (api.RecordResponse, error) {
				return c.SealSource(ctx, run, args[0])
			}
			return record(&client, cmd, asJSON, "seal", seal, "source "+args[0]+" of run %s ends at document %d\n", "")
		},
	}
	client.Register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// NewFlushCmd returns the command flush.
func NewFlushCmd() *cobra.Command {
	var client command.FlightClient
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "flush",
		Short: "Flush buffered documents up to the current end of the stream",
		Long: `Flush buffered documents up to the current end of the document stream, and
continue. The documents are those in pool, holdback and shuffle window. Readers
get the complete steps of the flushed rows. Rows that do not fill a step wait
for later rows. Flushing pads some rows that would otherwise be filled. The plan
records the decision, so that a restart repeats it. serve.linger flushes a quiet
stream automatically.`,
		Example: `  loaderd publish corpus/ && loaderd flush`,
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return record(&client, cmd, asJSON, "flush", (*flightclient.Client).Flush, "flushed run %s up to arrival %d\n",
				"flushed run %s up to its position in its sources: %s\n")
		},
	}
	client.Register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// record requests a control record at the present end of the stream, and prints the number of the last document. With
// several sources, one number does not identify that document, so it prints the names of the sources.
func record(client *command.FlightClient, cmd *cobra.Command, asJSON bool, action string,
	ask func(*flightclient.Client, context.Context, string) (api.RecordResponse, error), done, ofSources string) error {
	var recorded api.RecordResponse
	var sources []string
	err := client.Ask(cmd.Context(), action, func(c *flightclient.Client) (err error) {
		if recorded, err = ask(c, cmd.Context(), client.Run); err != nil || recorded.Source != "" {
			return err
		}
		info, err := c.Info(cmd.Context(), client.Run)
		for _, s := range info.Sources {
			sources = append(sources, s.Name)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case asJSON:
		return json.NewEncoder(cmd.OutOrStdout()).Encode(recorded)
	case len(sources) > 1:
		fmt.Fprintf(cmd.OutOrStdout(), ofSources, recorded.Run, strings.Join(sources, ", "))
	default:
		fmt.Fprintf(cmd.OutOrStdout(), done, recorded.Run, recorded.Sequence)
	}
	return nil
}
