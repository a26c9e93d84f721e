package daemoncmd

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"loaderd/internal/auth"
	"loaderd/internal/cli/command"
	"loaderd/internal/daemon"
)

// NewPageCmd returns the command page.
func NewPageCmd() *cobra.Command {
	var target httpTarget
	cmd := &cobra.Command{
		Use:   "page",
		Short: "Print a link that opens the live page",
		Long: `Print a link that opens the live page of a daemon whose data folder is on this
machine. With -c, the page is at http.listen of the configuration. The link
opens the page once, within ten minutes, and only for the daemon process that
runs now. It is made from the token in the daemon's data folder.

The page stays open in its tab until the daemon stops, for at most a week. Over
a tunnel, replace the daemon's port in the link with the tunnel's port. A daemon
with identities or a token file has no such link. Its page requires a token.`,
		Example: `  loaderd page
  loaderd page -c /etc/loaderd/loaderd.yaml
  loaderd page --daemon /data/loaderd`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := target.find(cmd)
			if err != nil {
				return err
			}
			if found.config != nil && !found.config.Flight.RequiresOwnToken() {
				return command.Usage(errors.New("this configuration does not use the token of the data folder: open the page " +
					"at http.listen, with a token if the page requires one"))
			}
			link, err := daemon.PageLink(found.dir, found.url)
			if errors.Is(err, fs.ErrNotExist) {
				return noKeptToken(auth.FlightTokenFile, found.dir)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), link)
			return nil
		},
	}
	target.register(cmd)
	return cmd
}
