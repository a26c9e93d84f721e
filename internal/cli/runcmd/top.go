package runcmd

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"loaderd/internal/api"
	"loaderd/internal/cli/command"
	"loaderd/internal/flightclient"
	"loaderd/internal/top"
)

// NewTopCmd returns the command top.
func NewTopCmd() *cobra.Command {
	var client command.FlightClient
	cmd := &cobra.Command{
		Use:   "top [flags]",
		Short: "Watch a run on a terminal: how it does, its stages, sources, ranks and events",
		Long: `Watch the run of a daemon, here or elsewhere, on a terminal: how it does in a sentence, how full the stages between producers and trainers are and which of
them the others wait for, sources, the ranks that are furthest behind, and what happened last. q leaves; the daemon goes on.

The same as a page in a browser is at the daemon's http.listen; for scripts there is loaderd status --json.`,
		Example: `  loaderd top
  loaderd top --flight grpc+tls://trainer-0:8815 --tls-ca ca.pem --token-file token`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := command.Terminal(cmd.OutOrStdout())
			if out == nil || os.Getenv("TERM") == "dumb" {
				return command.Usage(errors.New("top draws on a terminal; here use loaderd status"))
			}
			return client.Ask(cmd.Context(), "status", func(c *flightclient.Client) error {
				return top.Run(cmd.Context(), client.URI, func(ctx context.Context) (api.Status, error) {
					return c.Status(ctx, client.Run)
				}, out)
			})
		},
	}
	client.Register(cmd)
	return cmd
}
