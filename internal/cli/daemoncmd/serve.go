// Package daemoncmd implements the commands that run a daemon and work on its data folder and its cluster.
package daemoncmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/config"
)

// NewServeCmd returns the command serve.
func NewServeCmd() *cobra.Command {
	var flags command.ConfigFlags
	var printConfig, untilEOF bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: `Run the daemon: read documents from the stream, plan steps and serve them to
readers until SIGTERM or SIGINT. After a restart over the same data, the daemon
continues the run's plan.

Settings are read from built-in defaults, the file of --config, the environment
(LOADERD_STREAM__DIR sets stream.dir) and flags. Later ones override earlier
ones. --print-config prints every setting with its description.

Without configured identities, the daemon serves only this user: calls need the
token in its data folder. Commands and the Python client find the token there.
On a terminal the daemon first prints a link that opens the live page, and how
to train and to publish. loaderd page prints another link.`,
		Example: `  # defaults: embedded NATS server, ./loaderd-data, Flight on 127.0.0.1:8815
  loaderd serve

  # a configuration file with one setting changed
  loaderd serve -c loaderd.yaml --set steps.rows=256

  # write a configuration file to start from
  loaderd serve --tokenizer o200k_base --print-config > loaderd.yaml`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := flags.Load(cmd)
			if err != nil {
				return err
			}
			if printConfig {
				return c.Print(cmd.OutOrStdout())
			}
			ctx := cmd.Context()
			if untilEOF {
				if flags.File == "-" {
					return command.Usage(
						errors.New("--until-eof and --config - both read standard input: pass the configuration as a file"))
				}
				var cancel context.CancelFunc
				ctx, cancel = command.WhileOpen(ctx, cmd.InOrStdin())
				defer cancel()
			}
			again := func() (config.Config, error) { return flags.Load(cmd) }
			if flags.File == "-" { // standard input has been read
				again = func() (config.Config, error) { return c, nil }
			}
			return serve(ctx, c, again, command.NewLogger(c.Log, cmd.ErrOrStderr()), command.Terminal(cmd.ErrOrStderr()))
		},
	}
	flags.RegisterServe(cmd)
	cmd.Flags().BoolVar(&printConfig, "print-config", false, "print the effective configuration as YAML and exit")
	cmd.Flags().BoolVar(&untilEOF, "until-eof", false,
		"also stop at the end of standard input, to end together with the program that started the daemon")
	return cmd
}
