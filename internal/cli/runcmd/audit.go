package runcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/humanize"
	"loaderd/internal/runadmin"
	"loaderd/loader/maintenance"
)

// newRunAuditCmd returns the command run audit.
func newRunAuditCmd() *cobra.Command {
	var flags command.ConfigFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "audit --run NAME [flags]",
		Short: "Replay a run and verify its plan log",
		Long: `Replay a run and verify its plan log. The command reads the documents and the
plan from the beginning and plans every step again without checkpoints. Rows,
order and buckets must equal those of the log. After every step, every token
must be accounted for: tokens in = tokens out - repeated + dropped + waiting.
The exit status is 0 if the log is correct, else 1 with the first step that
differs.

Nothing is changed. A daemon may serve the run meanwhile. The stream must still
contain the run's documents from the first one on.`,
		Example: `  loaderd run audit --run default --daemon /data/loaderd
  loaderd run audit -c loaderd.yaml --run pretrain \
      --daemon nats://nats-1:4222 --json`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := flags.Load(cmd)
			if err != nil {
				return err
			}
			seen, err := audit(cmd.Context(), c, command.NewLogger(c.Log, cmd.ErrOrStderr()), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(seen)
			}
			return writeAudited(cmd.OutOrStdout(), c.Run, seen)
		},
	}
	flags.RegisterRun(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func audit(ctx context.Context, c config.Config, log *slog.Logger,
	stderr io.Writer) (_ maintenance.AuditResult, err error) {
	tokens, tokenizer, err := daemon.LoadTokenizer(c.Tokenizer)
	if err != nil {
		return maintenance.AuditResult{}, err
	}
	store, err := command.OpenRunStore(ctx, c, log)
	if err != nil {
		return maintenance.AuditResult{}, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	tokens.Store = daemon.OpenTokenStore(&c, log)
	defer tokens.Store.Close()
	progress := command.NewProgress(stderr, "steps")
	defer progress.Finish()
	return runadmin.Audit(ctx, store, c.Run, tokens, tokenizer, func(a maintenance.AuditResult) {
		progress.Report(int64(a.Steps), int64(a.Planned))
	})
}

func writeAudited(w io.Writer, run string, a maintenance.AuditResult) error {
	state := "the run continues"
	if a.Ended {
		state = "the run has ended"
	}
	_, err := fmt.Fprintf(w, `run %s: the replay of all %s steps equals the log; %s
  documents  %s
  tokens in  %s
  in steps   %s, plus %s of padding
  repeated   %s
  dropped    %s
  waiting    %s
Every token is accounted for after every step.
`, run, humanize.Count(a.Steps), state, humanize.Count(a.Documents), humanize.Count(a.Tokens),
		humanize.Count(a.Emitted), humanize.Count(a.Padding), humanize.Count(a.Repeated), humanize.Count(a.Dropped),
		humanize.Count(a.Waiting))
	for _, c := range a.Controls {
		if err == nil {
			_, err = fmt.Fprintf(w, "Record %d: %s.\n", c.Record, c.Description)
		}
	}
	return err
}
