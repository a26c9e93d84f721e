package daemoncmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/humanize"
	"loaderd/internal/runadmin"
	"loaderd/stream"
)

// NewClusterCmd returns the command cluster.
func NewClusterCmd() *cobra.Command {
	return command.Group("cluster", "Manage the NATS servers that store the runs",
		`  loaderd cluster migrate --daemon /data/loaderd --to nats://nats-1:4222`, newMigrateCmd())
}

// migrateFlags are the source and the destination of copied runs.
type migrateFlags struct {
	source command.ConfigFlags
	target stream.Config
	run    string
	dry    bool
	json   bool
}

func newMigrateCmd() *cobra.Command {
	f := migrateFlags{target: stream.Default()}
	cmd := &cobra.Command{
		Use:   "migrate --to URLS [flags]",
		Short: "Copy runs and their documents to other NATS servers",
		Long: `Copy the document stream and the runs over it to other NATS servers. The copy
includes dead letters, plans, checkpoints, low watermarks and publish records.
The source is the data folder of a stopped daemon, or NATS servers.

On the new servers the runs continue with the same steps. Sequences, gaps,
times, headers and ids are unchanged. Every message is compared after the copy.
The source is not changed. Start no daemon on the source after the copy.

The command fails while a daemon leads one of the runs, or if the target already
has one of the streams. After an interruption, run the same command again:
complete copies are kept. Start daemons on the new servers after the copy is
complete.`,
		Example: `  loaderd cluster migrate --daemon /data/loaderd \
      --to nats://nats-1:4222,nats://nats-2:4222 --dry-run
  loaderd cluster migrate -c loaderd.yaml --to tls://nats-1:4222 \
      --to-creds app.creds`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.source.Load(cmd)
			if err != nil {
				return err
			}
			if f.target.URL == "" {
				return command.Usage(errors.New("--to is missing: want the URLs of the target NATS servers"))
			}
			return f.migrate(cmd.Context(), c, command.NewLogger(c.Log, cmd.ErrOrStderr()), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.source.RegisterStore(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.target.URL, "to", "", "NATS servers to copy to, comma separated (nats:// or tls://)")
	fl.StringVar(&f.target.Credentials, "to-creds", "", "NATS credentials file for --to")
	fl.StringVar(&f.target.TokenFile, "to-token-file", "",
		"operator.token of a member's data folder, if --to are embedded servers of daemons")
	fl.StringVar(&f.target.NKey, "to-nkey", "", "NKey seed file for --to")
	fl.StringVar(&f.target.TLS.CA, "to-tls-ca", "", "certificates of the authorities that signed the certificates of --to")
	fl.StringVar(&f.target.TLS.Cert, "to-tls-cert", "", "client certificate for --to, with --to-tls-key")
	fl.StringVar(&f.target.TLS.Key, "to-tls-key", "", "key of --to-tls-cert")
	fl.IntVar(&f.target.Replicas, "to-replicas", 0,
		"replicas of each stream; 0: 3 on a cluster of 3 or more servers, else 1")
	fl.StringVar(&f.run, "run", "", "copy only this run, with all documents (default: all runs over the document stream)")
	fl.BoolVar(&f.dry, "dry-run", false, "report what would be copied, and copy nothing")
	fl.BoolVar(&f.json, "json", false, "print what was copied as JSON")
	return cmd
}

func (f *migrateFlags) migrate(ctx context.Context, c config.Config, log *slog.Logger, out,
	progress io.Writer) (err error) {
	from, err := command.OpenRunStore(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	f.target.Name, f.target.Subject, f.target.Dir = c.Stream.Name, c.Stream.Subject, ""
	to, err := command.Connect(ctx, f.target, command.RunStoreWait, log, stream.Open)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	m := runadmin.Migration{From: from, To: to, Run: f.run, Self: daemon.ProcessInfo(), Progress: tellNowAndThen(progress)}
	do := m.Execute
	if f.dry {
		do = m.Inspect
	}
	done, err := do(ctx)
	if err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(out).Encode(done)
	}
	f.write(out, done)
	return nil
}

// tellNowAndThen returns a function that reports the progress of a long copy at intervals.
func tellNowAndThen(w io.Writer) func(what string, done, of int64) {
	told := time.Now()
	return func(what string, done, of int64) {
		if time.Since(told) < 5*time.Second {
			return
		}
		told = time.Now()
		fmt.Fprintf(w, "loaderd: %s: %d %%\n", what, min(100, 100*done/max(of, 1)))
	}
}

func (f *migrateFlags) write(w io.Writer, done runadmin.MigrationReport) {
	verb := "copied and compared"
	if f.dry {
		verb = "to be copied"
	}
	for _, s := range done.Streams {
		there := ""
		if s.Copied {
			there = ", already at the target"
		}
		fmt.Fprintf(w, "stream %s: %s, %s, sequences %s to %s%s\n", s.Stream, humanize.Things(int(s.Messages), "message"),
			humanize.Bytes(int64(s.Bytes)),
			humanize.Count(s.First), humanize.Count(s.Last), there)
	}
	fmt.Fprintf(w, "%s: %s with %s", verb, humanize.Things(len(done.Streams), "stream"),
		humanize.Things(len(done.Runs), "run"))
	if len(done.Runs) > 0 {
		fmt.Fprintf(w, " (%s)", strings.Join(done.Runs, ", "))
	}
	if f.dry {
		fmt.Fprintln(w)
		return
	}
	fmt.Fprintf(w,
		", %s\nstart daemons with stream.url set to the new servers, and none on the old servers\n",
		humanize.Things(done.Records, "publish record"))
}
