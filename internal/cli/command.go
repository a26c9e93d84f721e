package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1 // the work failed
	exitUsage  = 2 // the command line or the configuration is wrong
	// exitRejected is the status of a publish whose documents are committed, where a run could not decode some.
	exitRejected = 3
)

// usageError marks an error that a command finds in its arguments itself: it exits with exitUsage.
type usageError struct{ error }

// usage returns err as an error of the command line.
func usage(err error) error { return usageError{err} }

func (e usageError) Unwrap() error { return e.error }

// exitStatus makes a command end with a status and without a word: what it wrote says why.
type exitStatus struct{ code int }

func (exitStatus) Error() string { return "" }

// noArguments refuses arguments. Cobra would call the first an unknown command.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments: %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// group makes a command that has no work of its own but its subcommands'.
func group(use, short, example string, subcommands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(subcommands...)
	return cmd
}
