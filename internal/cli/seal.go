package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"loaderd/internal/api"
	"loaderd/internal/reader"
)

func newSealCmd() *cobra.Command {
	var client flightClient
	cmd := &cobra.Command{
		Use:   "seal [SOURCE]",
		Short: "End a run, or one of its sources, behind the present last document",
		Long: `End a run behind the document stream's present last document: what waits in the pool is packed, the last step is padded or dropped
(steps.last), and every rank's stream ends at the same step. The decision is recorded in the plan, so a restart repeats it. Documents
published later belong to other runs. Sealing twice changes nothing.

Of a run with several sources it ends all, each behind its present last document: the run ends when they are used up. With the name of a SOURCE it
ends that one alone; its weight goes to the others when it is used up, and with epochs set it is read again.`,
		Example: `  loaderd publish corpus/ && loaderd seal
  loaderd seal --flight grpc://trainer-0:8815 --run pretrain-7
  loaderd seal math`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return client.record(cmd, "seal", (*reader.Client).Seal, "run %s ends behind document %d\n",
					"run %s ends when its sources are used up, each behind its present last document: %s\n")
			}
			seal := func(c *reader.Client, ctx context.Context, run string) (api.Recorded, error) {
				return c.SealSource(ctx, run, args[0])
			}
			return client.record(cmd, "seal", seal, "source "+args[0]+" of run %s ends behind document %d\n", "")
		},
	}
	client.register(cmd)
	return cmd
}

func newDrainCmd() *cobra.Command {
	var client flightClient
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Pack what waits, up to the document stream's present last document, and go on",
		Long: `Pack what waits in pool, hold and shuffle window, up to the document stream's present last document, and go on: readers get the full steps of
what is there, rows that do not fill a step wait for others. Some rows are padded that would have been filled. The decision is recorded in the
plan, so a restart repeats it. serve.linger drains a quiet stream by itself.`,
		Example: `  loaderd publish corpus/ && loaderd drain`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return client.record(cmd, "drain", (*reader.Client).Drain, "run %s is drained behind document %d\n",
				"run %s is drained behind what it has taken of its sources: %s\n")
		},
	}
	client.register(cmd)
	return cmd
}

// record asks for a record of the plan behind the present last document, and says which that is; of a run with several sources, whose documents that one
// number does not name, with their names.
func (f *flightClient) record(cmd *cobra.Command, action string, ask func(*reader.Client, context.Context, string) (api.Recorded, error),
	done, ofSources string) error {
	var recorded api.Recorded
	var sources []string
	err := f.ask(cmd.Context(), action, func(c *reader.Client) (err error) {
		if recorded, err = ask(c, cmd.Context(), f.run); err != nil || recorded.Source != "" {
			return err
		}
		info, err := c.Info(cmd.Context(), f.run)
		for _, s := range info.Sources {
			sources = append(sources, s.Name)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case len(sources) > 0:
		fmt.Fprintf(cmd.OutOrStdout(), ofSources, recorded.Run, strings.Join(sources, ", "))
	default:
		fmt.Fprintf(cmd.OutOrStdout(), done, recorded.Run, recorded.Sequence)
	}
	return nil
}
