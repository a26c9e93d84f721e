package daemoncmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loaderd/internal/auth"
	"loaderd/internal/cli/command"
	"loaderd/internal/config"
	"loaderd/internal/table"
	"loaderd/stream/server"
)

// NewTokenCmd returns the command token.
func NewTokenCmd() *cobra.Command {
	return command.Group("token", "Manage identities and tokens",
		`  loaderd token create trainer --role train > trainer.token
  loaderd token create prometheus --role read --days 90 > prometheus.token
  loaderd token list
  loaderd token revoke trainer
  loaderd token producer --daemon /data > producer.token
  loaderd token flight --daemon /data > flight.token`,
		newTokenCreateCmd(), newTokenListCmd(), newTokenRevokeCmd(), newTokenProducerCmd(), newTokenFlightCmd())
}

func newTokenFlightCmd() *cobra.Command {
	return keptTokenCmd(&cobra.Command{
		Use:   "flight",
		Short: "Print the token for calls to the local daemon",
		Long: `Print the token that the local daemon requires for Flight and HTTP calls other
than health checks. The command reads it from the daemon's data folder. The
daemon requires this token if neither identities nor a token file are
configured. Commands and the Python client find it in the data folder. Other
clients send it in the header authorization: Bearer TOKEN.`,
		Example: `  loaderd token flight --daemon /data > flight.token
  printf 'Authorization: Bearer %s' "$(loaderd token flight)" | curl -H @- \
      http://127.0.0.1:9815/metrics`,
	}, auth.FlightTokenFile, func(c config.Config) error {
		if !c.Flight.RequiresOwnToken() {
			return errors.New("this configuration does not use the token of the data folder: flight.identities, " +
				"flight.token_file, flight.client_ca or flight.insecure is set")
		}
		return nil
	})
}

func newTokenProducerCmd() *cobra.Command {
	return keptTokenCmd(&cobra.Command{
		Use:   "producer",
		Short: "Print the token that producers use to publish",
		Long: `Print the token that producers use to publish to the local daemon's embedded
NATS server. The command reads it from the daemon's data folder. All daemons of
a cluster have the same token. It only permits publishing documents and reading
their outcome.`,
		Example: `  loaderd token producer --daemon /data > producer.token
  kubectl exec pretrain-loaderd-0 \
      -- loaderd token producer -c /etc/loaderd/loaderd.yaml > producer.token`,
	}, server.ProducerFile, func(c config.Config) error {
		if c.Stream.URL != "" {
			return fmt.Errorf("stream.url is set: producers authenticate as the NATS servers at %s require", c.Stream.URL)
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
		"cannot find %s in %s: a daemon creates it at its start; name the daemon's data folder with --daemon or -c",
		file, dir)
}

func identitiesFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "identities", "identities.json", "`file` of identities that flight.identities names")
}

func newTokenCreateCmd() *cobra.Command {
	var file, role string
	var days int
	var i auth.Identity
	cmd := &cobra.Command{
		Use:   "create NAME --role ROLE",
		Short: "Add an identity and print its token",
		Long: `Add an identity to a file and print its token once. The file stores only a hash
of the token. A daemon with flight.identities set to the file accepts the
identity within seconds, without a restart. Roles:
  read     read steps and the state of a run
  train    read, commit and leave, for jobs of the identity: NAME and NAME/...
  operate  train for all jobs, and seal, flush, checkpoint, ledger and find

With --certificate no token is made. A client has the identity if its
certificate contains that name as a host, a URI or the common name
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
				return command.Usage(fmt.Errorf("--days %d: want 0 (no expiry) to 36500", days))
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
				"loaderd: added %s with role %s, identified by %s; daemons with flight.identities: %s accept it within seconds\n",
				i.Name, i.Role, knownBy(i), file)
			return nil
		},
	}
	identitiesFlag(cmd, &file)
	fl := cmd.Flags()
	fl.StringVar(&role, "role", "", "read, train or operate")
	fl.StringArrayVar(&i.Runs, "run", nil,
		"`name` of a run that it may access, or a prefix and *; may be repeated (default: all runs)")
	fl.StringArrayVar(&i.Jobs, "job", nil,
		"`name` of a job that it may commit for, or a prefix and *; may be repeated (default: its own name)")
	fl.StringVar(&i.Certificate, "certificate", "",
		"`name` in the client certificate that identifies the client, in place of a token")
	fl.IntVar(&days, "days", 0, "days until the identity expires; 0: valid until it is revoked")
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
	var asJSON, noHeaders bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List identities",
		Args:  command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := auth.ReadFile(file)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(all)
			}
			t := table.New("NAME", "ROLE", "IDENTIFIED BY", "RUNS", "JOBS", "CREATED", "EXPIRES")
			t.NoHeader = noHeaders
			for _, i := range all {
				jobs := i.Jobs
				switch {
				case i.Role == auth.Read:
					jobs = []string{"-"}
				case i.Role == auth.Operate:
					jobs = []string{"*"}
				case len(jobs) == 0:
					jobs = []string{i.Name, i.Name + "/*"}
				}
				t.Row(i.Name, string(i.Role), knownBy(i), listed(i.Runs, "*"), listed(jobs, ""), day(i.Created, "-"),
					day(i.Expires, "never"))
			}
			return t.Write(cmd.OutOrStdout())
		},
	}
	identitiesFlag(cmd, &file)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	command.RegisterNoHeaders(cmd, &noHeaders)
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
		return t.Format(time.DateOnly) + " (expired)"
	}
	return t.Format(time.DateOnly)
}

func newTokenRevokeCmd() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a token",
		Long: `Revoke a token: remove its identity from a file. Daemons with flight.identities
set to the file reject its calls within seconds, and end its open streams.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := auth.Remove(file, args[0]); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "revoked %s\n", args[0])
			return nil
		},
	}
	identitiesFlag(cmd, &file)
	return cmd
}
