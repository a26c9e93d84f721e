// Package cli is the command line of loaderd: the root command with the commands of the packages below.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"loaderd/internal/build"
	"loaderd/internal/cli/command"
	"loaderd/internal/cli/daemoncmd"
	"loaderd/internal/cli/dlqcmd"
	"loaderd/internal/cli/publishcmd"
	"loaderd/internal/cli/runcmd"
	"loaderd/internal/cli/simulatecmd"
	"loaderd/internal/config"
)

// Run executes the command line and returns its exit code. The first SIGINT or SIGTERM cancels the context; the
// second ends the process.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, restore := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer restore()
	context.AfterFunc(ctx, restore)

	root := NewRootCmd()
	root.SetArgs(args)
	root.SetIn(stdin)
	out := &command.Output{Writer: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	started := false // the command line was valid
	noteStart(root, &started)

	cmd, err := root.ExecuteContextC(ctx)
	var usage command.UsageError
	var quiet command.ExitStatus
	var rejected publishcmd.RejectedError
	var unreachable command.UnreachableError
	var problems config.Problems
	if out.Err != nil && (err == nil || !started) {
		err, started = out.Err, true
	}
	switch {
	case err == nil:
		return command.ExitOK
	case errors.As(err, &quiet):
		return quiet.Code
	case errors.As(err, &rejected):
		fmt.Fprintf(stderr, "loaderd: %v\n", err)
		return command.ExitRejected
	case errors.As(err, &problems):
		fmt.Fprintf(stderr, "loaderd: %v\n", err)
		return command.ExitUsage
	case !started || errors.As(err, &usage):
		fmt.Fprintf(stderr, "loaderd: %v\nSee %s --help.\n", err, cmd.CommandPath())
		return command.ExitUsage
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		fmt.Fprintln(stderr, "loaderd: interrupted")
		return command.ExitFailed
	}
	fmt.Fprintf(stderr, "loaderd: %v\n", err)
	if errors.As(err, &unreachable) {
		return command.ExitUnreachable
	}
	return command.ExitFailed
}

// noteStart makes every command below cmd set started when its own work begins. Errors before that concern the
// command line.
func noteStart(cmd *cobra.Command, started *bool) {
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*started = true
			return work(cmd, args)
		}
	}
	for _, c := range cmd.Commands() {
		noteStart(c, started)
	}
}

// NewRootCmd returns the loaderd command with all its subcommands.
func NewRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "loaderd",
		Short: "Stream documents into training batches",
		Long: `loaderd streams documents from NATS JetStream to the ranks of a training job. It
tokenizes documents, packs them online into rows and shuffles the rows. Every
rank receives its part of every step as Arrow record batches over Arrow Flight.
The same configuration over the same stream produces the same batches, byte for
byte.

Exit status: 0 on success; 1 if the work failed; 2 if the command line or the
configuration is invalid; 6 if the daemon or its servers cannot be reached.
publish returns 3 if it committed its documents, but a run could not decode some
of them. status returns 4 if the run waits, and 5 if something is broken.`,
		Example: `  # a daemon with an embedded NATS server, and documents for it
  loaderd serve --data-dir /data/loaderd --tokenizer gpt2
  loaderd publish corpus/*.jsonl.zst

  # a daemon on an existing NATS cluster
  loaderd serve -c loaderd.yaml --nats nats://nats-1:4222,nats://nats-2:4222

  # print the effective settings
  loaderd serve -c loaderd.yaml --print-config`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.Version = buildText(build.This())
	root.SetVersionTemplate("{{.Version}}")
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	command.InitHelp(root)
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"load", "Run a loader:", []*cobra.Command{daemoncmd.NewDemoCmd(), daemoncmd.NewServeCmd(),
			publishcmd.NewPublishCmd(), publishcmd.NewImportCmd(), runcmd.NewMixCmd(), runcmd.NewFilterCmd(),
			runcmd.NewScheduleCmd(), runcmd.NewFlushCmd(), runcmd.NewSealCmd()}},
		{"observe", "Observe a run:", []*cobra.Command{runcmd.NewStatusCmd(), runcmd.NewTopCmd(),
			daemoncmd.NewPageCmd(), daemoncmd.NewHealthCmd(), runcmd.NewLedgerCmd(), runcmd.NewPeekCmd()}},
		{"manage", "Manage runs, sources, servers and identities:", []*cobra.Command{runcmd.NewRunCmd(),
			runcmd.NewSourceCmd(), dlqcmd.NewDLQCmd(), daemoncmd.NewClusterCmd(), daemoncmd.NewTokenCmd(),
			daemoncmd.NewContextCmd()}},
		{"offline", "Try tokenizers and packing without a daemon:", []*cobra.Command{simulatecmd.NewCompareCmd(),
			simulatecmd.NewSimulateCmd(), simulatecmd.NewGenLengthsCmd(), newTokenizeCmd()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.AddCommand(newManCmd(), newVersionCmd(), daemoncmd.NewDemoRankCmd())
	return root
}
