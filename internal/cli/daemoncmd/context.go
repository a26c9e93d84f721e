package daemoncmd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/table"
)

// NewContextCmd returns the command context.
func NewContextCmd() *cobra.Command {
	cmd := command.Group("context", "Name daemons, and select one for all commands",
		`  loaderd context set prod --flight grpc+tls://trainer-0:8815 \
      --nats tls://nats-1:4222 --tls-ca ca.pem --token-file prod.token
  loaderd context select prod
  loaderd status                      # of prod
  loaderd status --daemon staging     # of another context
  loaderd context select --none`,
		newContextSetCmd(), newContextListCmd(), newContextSelectCmd(), newContextRemoveCmd())
	cmd.Long = `Name daemons, and select one for all commands. A context has the addresses of a
daemon's servers and the files that authenticate to them. Contexts are in the
file loaderd/contexts.yaml of the user's configuration folder (~/.config).

Every command that uses a daemon finds it in the same way, the first that is
set:
  --daemon         a data folder on this machine, a URL of one of the daemon's
                   servers, or the name of a context
  -c FILE          the configuration of serve, for commands with this flag
  LOADERD_DAEMON   the same as --daemon
  context          the selected context
  loaderd-data     the data folder in the working directory, or that of
                   LOADERD_STREAM__DIR
A running daemon writes the addresses of its servers to its data folder. Without
one, commands use the default ports of this machine.`
	return cmd
}

// contextName is the form of names, which can be neither a URL nor a path.
var contextName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

func newContextSetCmd() *cobra.Command {
	var set command.Context
	cmd := &cobra.Command{
		Use:   "set NAME [flags]",
		Short: "Create or change a context",
		Long: `Create a context, or change the values of an existing one that are given as
flags. An empty value removes a setting.`,
		Example: `  loaderd context set local --data-dir /data/loaderd
  loaderd context set prod --flight grpc+tls://trainer-0:8815 \
      --http https://trainer-0:9815 --tls-ca ca.pem --token-file prod.token`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return setContext(cmd, args[0], set.Settings()) },
	}
	for _, x := range set.Settings() {
		cmd.Flags().StringVar(x.Value, x.Name, "", x.Usage)
	}
	return cmd
}

// setContext changes the settings of a context whose flags are given.
func setContext(cmd *cobra.Command, name string, flags []command.Setting) error {
	if !contextName.MatchString(name) {
		return command.Usage(fmt.Errorf("name %q: want letters, digits, - _ and ., beginning with a letter or digit", name))
	}
	all, err := command.ReadContexts()
	if err != nil {
		return err
	}
	changed, given := all.Contexts[name], 0
	for i, x := range changed.Settings() {
		if !cmd.Flags().Changed(x.Name) {
			continue
		}
		given++
		*x.Value = *flags[i].Value
		if x.IsFile && *x.Value != "" {
			if *x.Value, err = filepath.Abs(*x.Value); err != nil {
				return fmt.Errorf("--%s: %w", x.Name, err)
			}
		}
	}
	if given == 0 {
		return command.Usage(errors.New("nothing to set: want at least one address, such as --flight grpc://HOST:8815"))
	}
	if all.Contexts == nil {
		all.Contexts = map[string]command.Context{}
	}
	all.Contexts[name] = changed
	return all.Write()
}

func newContextListCmd() *cobra.Command {
	var asJSON, noHeaders bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List contexts; the selected one has an asterisk",
		Args:  command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := command.ReadContexts()
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(all)
			}
			t := table.New("NAME", "FLIGHT", "HTTP", "NATS", "DATA FOLDER")
			t.NoHeader = noHeaders
			for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
				c, shown := all.Contexts[name], name
				if name == all.Selected {
					shown += " *"
				}
				t.Row(shown, cmp.Or(c.Flight, "-"), cmp.Or(c.HTTP, "-"), cmp.Or(c.NATS, "-"), cmp.Or(c.DataDir, "-"))
			}
			return t.Write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	command.RegisterNoHeaders(cmd, &noHeaders)
	return cmd
}

func newContextSelectCmd() *cobra.Command {
	var none bool
	cmd := &cobra.Command{
		Use:     "select NAME | --none",
		Short:   "Select the context that commands use by default",
		Example: "  loaderd context select prod",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if none != (len(args) == 0) {
				return command.Usage(errors.New("want the name of a context, or --none"))
			}
			all, err := command.ReadContexts()
			if err != nil {
				return err
			}
			all.Selected = ""
			if !none {
				if err := all.Require(args[0]); err != nil {
					return err
				}
				all.Selected = args[0]
			}
			return all.Write()
		},
	}
	cmd.Flags().BoolVar(&none, "none", false, "select no context")
	return cmd
}

func newContextRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a context",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := command.ReadContexts()
			if err != nil {
				return err
			}
			if err := all.Require(args[0]); err != nil {
				return err
			}
			delete(all.Contexts, args[0])
			if all.Selected == args[0] {
				all.Selected = ""
			}
			return all.Write()
		},
	}
}
