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
	var flags command.ConfigFlags
	var address string
	cmd := &cobra.Command{
		Use:   "page",
		Short: "Print a link that opens the live page",
		Long: `Print a link that opens the live page of the local daemon. The page is at
http.listen of the configuration, which is loaded as serve loads it. The link
opens the page once, within ten minutes, and only for the daemon process that
runs now. It is made from the token in the daemon's data folder.

The page stays open in its tab until the daemon stops, for at most a week. Over
a tunnel, replace the daemon's port in the link with the tunnel's port. A daemon
with identities or a token file has no such link. Its page requires a token.`,
		Example: `  loaderd page
  loaderd page -c /etc/loaderd/loaderd.yaml
  loaderd page --data-dir /data/loaderd --http http://127.0.0.1:9816`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := flags.Load(cmd)
			if err != nil {
				return err
			}
			if !c.Flight.RequiresOwnToken() {
				return command.Usage(errors.New("this configuration does not use the token of the data folder: open the page " +
					"at http.listen, with a token if the page requires one"))
			}
			if address == "" {
				if address, err = ownAddress(c.HTTP); err != nil {
					return err
				}
			}
			link, err := daemon.PageLink(c.Stream.Dir, address)
			if errors.Is(err, fs.ErrNotExist) {
				return noKeptToken(auth.FlightTokenFile, c.Stream.Dir)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), link)
			return nil
		},
	}
	flags.RegisterFile(cmd)
	flags.Override(cmd, "data-dir", "stream.dir", "data `folder` of the daemon, which holds its token")
	cmd.Flags().StringVar(&address, "http", "",
		"`URL` of the daemon's HTTP server (default: http.listen of the configuration)")
	return cmd
}
