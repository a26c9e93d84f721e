// Package command holds what commands share: configuration flags, connections to daemon and stream, output, errors and
// exit statuses.
package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	ExitOK     = 0
	ExitFailed = 1 // the work failed
	ExitUsage  = 2 // the command line or the configuration is wrong
	// ExitRejected is the status of a publish that committed its documents, some of which a run could not decode.
	ExitRejected = 3
	ExitWaiting  = 4 // of status: the run waits for documents, ranks or another daemon
	ExitFailing  = 5 // of status: something is broken
	// ExitUnreachable is the status of a command that cannot reach the daemon or its servers.
	ExitUnreachable = 6
)

// UsageError marks an error in a command's arguments. The command exits with ExitUsage.
type UsageError struct{ error }

// Usage returns err as a UsageError.
func Usage(err error) error { return UsageError{err} }

func (e UsageError) Unwrap() error { return e.error }

// UnreachableError marks that the daemon or its servers cannot be reached. The command exits with ExitUnreachable.
type UnreachableError struct{ error }

// Unreachable returns err as an UnreachableError.
func Unreachable(err error) error { return UnreachableError{err} }

func (e UnreachableError) Unwrap() error { return e.error }

// ExitStatus ends a command with a status and without an error message. The command's output gives the reason.
type ExitStatus struct{ Code int }

func (ExitStatus) Error() string { return "" }

// NoArguments rejects arguments. Cobra would report the first one as an unknown command.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments: %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// rejectUnknown rejects the name of an unknown subcommand.
func rejectUnknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return fmt.Errorf("%s has no command %q: want %s", cmd.CommandPath(), args[0], strings.Join(names, ", "))
}

// Group returns a command that only has subcommands. Without one it prints its help. Cobra itself reports an unknown
// subcommand only for the root command.
func Group(use, short, example string, subcommands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example, Args: rejectUnknown,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(subcommands...)
	return cmd
}
