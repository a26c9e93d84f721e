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
		Short: "Watch a run on a terminal",
		Long: `Watch the run of a local or remote daemon on a terminal. The view shows a
summary sentence and how full the stages between producers and trainers are. It
marks the stage that limits the others. It also shows sources, the ranks with
the most lag, and recent events. q leaves the view; the daemon continues.

The same content is on a web page at the daemon's http.listen. For scripts, use
loaderd status --json.`,
		Example: `  loaderd top
  loaderd top --daemon grpc+tls://trainer-0:8815 --tls-ca ca.pem \
      --token-file token`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := command.Terminal(cmd.OutOrStdout())
			if out == nil || os.Getenv("TERM") == "dumb" {
				return command.Usage(errors.New("top needs a terminal: use loaderd status"))
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
