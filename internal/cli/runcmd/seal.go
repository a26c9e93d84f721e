package runcmd

import (
	"context"
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
	cmd := &cobra.Command{
		Use:   "seal [SOURCE]",
		Short: "End a run, or one of its sources, behind the present last document",
		Long: `End a run behind the present last document of each of its sources: what waits in the pool is packed, the last step is padded or dropped
(steps.last), and every rank's stream ends at the same step. The decision is recorded in the plan, so a restart repeats it. Documents
published later belong to other runs. Sealing twice changes nothing.

The run ends when its sources are used up. With the name of a SOURCE it ends that one alone; its weight goes
to the others when it is used up, and with epochs set it is read again.`,
		Example: `  loaderd publish corpus/ && loaderd seal
  loaderd seal --flight grpc://trainer-0:8815 --run pretrain-7
  loaderd seal math`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return record(&client, cmd, "seal", (*flightclient.Client).Seal, "run %s ends behind document %d\n",
					"run %s ends when its sources are used up, each behind its present last document: %s\n")
			}
			seal := func(c *flightclient.Client, ctx context.Context, run string) (api.RecordResponse, error) {
				return c.SealSource(ctx, run, args[0])
			}
			return record(&client, cmd, "seal", seal, "source "+args[0]+" of run %s ends behind document %d\n", "")
		},
	}
	client.Register(cmd)
	return cmd
}

// NewDrainCmd returns the command drain.
func NewDrainCmd() *cobra.Command {
	var client command.FlightClient
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Pack what waits, up to the document stream's present last document, and go on",
		Long: `Pack what waits in pool, hold and shuffle window, up to the document stream's present last document, and go on: readers get the full steps of
what is there, rows that do not fill a step wait for others. Some rows are padded that would have been filled. The decision is recorded in the
plan, so a restart repeats it. serve.linger drains a quiet stream by itself.`,
		Example: `  loaderd publish corpus/ && loaderd drain`,
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return record(&client, cmd, "drain", (*flightclient.Client).Drain, "run %s is drained behind arrival %d\n",
				"run %s is drained behind what it has taken of its sources: %s\n")
		},
	}
	client.Register(cmd)
	return cmd
}

// record requests a control record at the present end of the stream, and prints the number of the last document. With
// several sources, one number does not identify that document, so it prints the names of the sources.
func record(client *command.FlightClient, cmd *cobra.Command, action string,
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
	case len(sources) > 1:
		fmt.Fprintf(cmd.OutOrStdout(), ofSources, recorded.Run, strings.Join(sources, ", "))
	default:
		fmt.Fprintf(cmd.OutOrStdout(), done, recorded.Run, recorded.Sequence)
	}
	return nil
}
