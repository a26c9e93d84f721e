package daemoncmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"loaderd/internal/auth"
	"loaderd/internal/cli/command"
	"loaderd/internal/config"
	"loaderd/stream/server"
)

// NewTokenCmd returns the command token.
func NewTokenCmd() *cobra.Command {
	return command.Group("token", "Say who is let in, and what they may do", `  loaderd token create trainer --role train > trainer.token
  loaderd token create prometheus --role read --days 90 > prometheus.token
  loaderd token list
  loaderd token revoke trainer
  loaderd token producer --data-dir /data > producer.token
  loaderd token flight --data-dir /data > flight.token`,
		newTokenCreateCmd(), newTokenListCmd(), newTokenRevokeCmd(), newTokenProducerCmd(), newTokenFlightCmd())
}

func newTokenFlightCmd() *cobra.Command {
	return keptTokenCmd(&cobra.Command{
		Use:   "flight",
		Short: "Print the token for calls from this machine",
		Long: `Print the token that the daemon of this machine asks for, from its data folder: by Flight and HTTP, for everything
but health, where neither identities nor a token file are configured. Commands and the Python client find it there
themselves. Other clients send it as the header authorization: Bearer TOKEN.`,
		Example: `  loaderd token flight --data-dir /data > flight.token
  printf 'Authorization: Bearer %s' "$(loaderd token flight)" | curl -H @- http://127.0.0.1:9815/metrics`,
	}, auth.FlightTokenFile, func(c config.Config) error {
		if !c.Flight.RequiresOwnToken() {
			return errors.New("this configuration asks for no token of the data folder: flight.identities, flight.token_file, " +
				"flight.client_ca or flight.insecure is set")
		}
		return nil
	})
}

func newTokenProducerCmd() *cobra.Command {
	return keptTokenCmd(&cobra.Command{
		Use:   "producer",
		Short: "Print the token with which producers publish",
		Long: `Print the token with which producers publish to the NATS server inside the daemon of this machine, from its data folder. All daemons of a cluster have
the same one. Whoever has it may publish documents and learn what has become of them, and no more.`,
		Example: `  loaderd token producer --data-dir /data > producer.token
  kubectl exec pretrain-loaderd-0 -- loaderd token producer -c /etc/loaderd/loaderd.yaml > producer.token`,
	}, server.ProducerFile, func(c config.Config) error {
		if c.Stream.URL != "" {
			return fmt.Errorf("stream.url is set: producers are known by what the NATS servers at %s know them by", c.Stream.URL)
		}
		return nil
	})
}

// keptTokenCmd makes cmd print the token in a file of the data folder, if check accepts the configuration.
func keptTokenCmd(cmd *cobra.Command, file string, check func(config.Config) error) *cobra.Command {
	var flags command.ConfigFlags
	cmd.Args = command.NoArguments
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := flags.Load(cmd)
		if err != nil {
			return err
		}
		if err := check(c); err != nil {
			return command.Usage(err)
		}
		token, err := auth.ReadToken(filepath.Join(c.Stream.Dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			return noKeptToken(file, c.Stream.Dir)
		}
		if err == nil {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
		}
		return err
	}
	flags.RegisterStore(cmd)
	return cmd
}

func noKeptToken(file, dir string) error {
	return fmt.Errorf(
		"there is no %s in %s: it is made when a daemon starts there; name its data folder by --data-dir or -c",
		file, dir)
}

func identitiesFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "identities", "identities.json", "`file` of identities, which flight.identities names")
}

func newTokenCreateCmd() *cobra.Command {
	var file, role string
	var days int
	var i auth.Identity
	cmd := &cobra.Command{
		Use:   "create NAME --role ROLE",
		Short: "Let somebody in, and print their token",
		Long: `Add an identity to a file, and print its token, once: the file keeps a hash of it. A daemon with flight.identities set to the file lets it in within
seconds, without a restart. Roles: read (steps, and what a run says of itself), train (commit and leave too, for keepers of its own: those with its
name, or its name, a slash and more), operate (seal, drain, checkpoint, ledger, find too, and all keepers).

With --certificate there is no token: who shows a client certificate with that name (of a host, a URI, or the common name) is known by it
(flight.client_ca).`,
		Example: `  loaderd token create trainer --role train --run 'pretrain-*' > trainer.token
  loaderd token create eval --role read --certificate eval.corp.example`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			i.Name, i.Role, i.Created = args[0], auth.Role(role), time.Now().UTC().Truncate(time.Second)
			if err := auth.ValidName(i.Name); err != nil {
				return command.Usage(err)
			}
			if !slices.Contains(auth.Roles, i.Role) {
				return command.Usage(fmt.Errorf("--role %q: want read, train or operate", role))
			}
			if days < 0 || days > 36500 {
				return command.Usage(fmt.Errorf("--days %d: want 0 (no end) to 36500", days))
			}
			if days > 0 {
				i.Expires = i.Created.AddDate(0, 0, days)
			}
			token := ""
			if i.Certificate == "" {
				token, i.SHA256 = auth.NewToken()
			}
			if err := auth.Add(file, i); err != nil {
				return err
			}
			if token != "" {
				fmt.Fprintln(cmd.OutOrStdout(), token)
			}
			fmt.Fprintf(cmd.ErrOrStderr(),
				"loaderd: %s may %s, by %s; daemons with flight.identities: %s let it in within seconds\n", i.Name, i.Role,
				knownBy(i), file)
			return nil
		},
	}
	identitiesFlag(cmd, &file)
	fl := cmd.Flags()
	fl.StringVar(&role, "role", "", "read, train or operate")
	fl.StringArrayVar(&i.Runs, "run", nil,
		"`name` of a run it may see, or the beginning of names and *; may be repeated; none: all")
	fl.StringArrayVar(&i.Keepers, "keeper", nil,
		"`name` of a keeper it may commit for, or the beginning of names and *; may be repeated; none: its own name")
	fl.StringVar(&i.Certificate, "certificate", "",
		"`name` in the client certificate that it is known by, in place of a token")
	fl.IntVar(&days, "days", 0, "for how many days it is let in; 0: until it is revoked")
	return cmd
}

func knownBy(i auth.Identity) string {
	if i.Certificate != "" {
		return "certificate " + i.Certificate
	}
	return "token"
}

func newTokenListCmd() *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List who is let in",
		Args:  command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := auth.ReadFile(file)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(all)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tROLE\tKNOWN BY\tRUNS\tKEEPERS\tCREATED\tEXPIRES")
			for _, i := range all {
				keepers := i.Keepers
				switch {
				case i.Role == auth.Read:
					keepers = []string{"-"}
				case i.Role == auth.Operate:
					keepers = []string{"*"}
				case len(keepers) == 0:
					keepers = []string{i.Name, i.Name + "/*"}
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", i.Name, i.Role, knownBy(i), listed(i.Runs, "*"), listed(keepers, ""),
					day(i.Created, "-"), day(i.Expires, "never"))
			}
			return w.Flush()
		},
	}
	identitiesFlag(cmd, &file)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func listed(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ",")
}

func day(t time.Time, none string) string {
	switch {
	case t.IsZero():
		return none
	case t.Before(time.Now()) && none == "never":
		return t.Format(time.DateOnly) + " (over)"
	}
	return t.Format(time.DateOnly)
}

func newTokenRevokeCmd() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Let somebody in no more",
		Long: `Take an identity out of a file. Daemons with flight.identities set to it refuse its calls within seconds. Streams that it reads already go on until
they end.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := auth.Remove(file, args[0]); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is let in no more\n", args[0])
			return nil
		},
	}
	identitiesFlag(cmd, &file)
	return cmd
}
