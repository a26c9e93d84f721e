package main

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

	"loaderd/internal/corpus"
	"loaderd/stream"
)

// published is the summary of a publish. Other programs read it: fields may be added, and none may change its name or meaning.
type published struct {
	Server         string           `json:"server"`
	Stream         string           `json:"stream"`
	Subject        string           `json:"subject"`
	Inputs         int              `json:"inputs"`          // files, and folders of plain text
	InputsComplete int              `json:"inputs_complete"` // now wholly in the stream
	Documents      int64            `json:"documents"`       // committed by this command
	Bytes          int64            `json:"bytes"`
	Duplicates     int64            `json:"duplicates"` // in the stream already; inputs that were complete are not read and not counted
	Skipped        map[string]int64 `json:"skipped"`    // documents and files left out, by reason
	LastSequence   uint64           `json:"last_sequence"`
	Seconds        float64          `json:"seconds"`
	WaitedSeconds  float64          `json:"waited_seconds"` // for a full stream or a lost connection
	Interrupted    bool             `json:"interrupted"`
	Error          string           `json:"error,omitempty"`
}

// emptyDocument is the reason of documents without content, beside those of package corpus.
const emptyDocument = "empty"

type publishFlags struct {
	config       stream.Config
	source       string
	domain       string
	format       string
	corpus       corpus.Options
	fingerprint  string
	skipTooLarge bool
	skipBad      bool
	json         bool
}

func newPublishCmd() *cobra.Command {
	f := publishFlags{config: stream.Default()}
	cmd := &cobra.Command{
		Use:   "publish [flags] PATH...",
		Short: "Put files into the document stream",
		Long: `Publish puts documents into the document stream of a NATS server, in order, each exactly once.

A PATH is a file, a folder (searched recursively, in the order of names) or - for standard input. By extension:
  .jsonl .ndjson   a JSON object a line; the document is its field "text" (--text-column)
  .parquet         a row a document; the document is its column "text" (--text-column)
  everything else  plain text, a file a document; binary and hidden files in folders are left out and counted
Each but Parquet may be compressed (.gz, .zst). Standard input is JSON lines unless --format says text.

What is committed is recorded beside the stream (key-value bucket loaderd_publish), by source and input. The same command again
adds nothing; after an interruption, or a kill, it goes on where it stopped; of a file that has changed it adds what is new. Standard
input has no record: there only the server's own window (two minutes) recognises what was sent before.

A full stream makes publish wait until readers have released documents. It says so, and goes on by itself.`,
		Example: `  # files into a daemon on this machine
  loaderd publish corpus/*.jsonl.zst

  # a source tree under a source name of its own
  loaderd publish --source go "$(go env GOROOT)/src"

  # Parquet with another column, to a cluster with TLS and credentials
  loaderd publish --nats tls://nats-1:4222 --creds app.creds --tls-ca ca.pem --text-column content data/

  # documents that are already tokenized
  loaderd tokenize --tokenizer gpt2 docs.jsonl |
    loaderd publish --tokenizer-fingerprint "$(loaderd tokenize --tokenizer gpt2 --fingerprint)" -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.config.URL, "nats", "nats://127.0.0.1:4222", "NATS servers, comma separated (nats:// or tls://)")
	fl.StringVar(&f.config.Credentials, "creds", "", "NATS credentials file")
	fl.StringVar(&f.config.NKey, "nkey", "", "NKey seed file")
	fl.StringVar(&f.config.TLS.CA, "tls-ca", "", "certificates of the authorities that signed the server's")
	fl.StringVar(&f.config.TLS.Cert, "tls-cert", "", "client certificate, with --tls-key")
	fl.StringVar(&f.config.TLS.Key, "tls-key", "", "key of the client certificate")
	fl.StringVar(&f.config.Name, "stream", f.config.Name, "document stream")
	fl.StringVar(&f.config.Subject, "subject", f.config.Subject, "subject that documents are below: SUBJECT.SOURCE")
	fl.StringVar(&f.source, "source", "files", "name of the source: letters, digits, - and _")
	fl.StringVar(&f.domain, "domain", "", "domain of all documents (header Loaderd-Domain)")
	fl.StringVar(&f.format, "format", string(corpus.Auto), "format of all files: auto (by extension), text, jsonl or parquet")
	fl.StringVar(&f.corpus.TextField, "text-column", "", `JSON field or Parquet column of the document (default "text", of token ids "ids")`)
	fl.StringVar(&f.corpus.IDField, "id-column", "", "JSON field or Parquet column of the document's id; the daemon drops documents of an equal id")
	fl.StringVar(&f.fingerprint, "tokenizer-fingerprint", "", "documents are token ids, made by the tokenizer of this fingerprint")
	fl.BoolVar(&f.skipTooLarge, "skip-too-large", false, "leave out, and count, documents larger than the server takes")
	fl.BoolVar(&f.skipBad, "skip-bad", false, "leave out, and count, lines and rows that are not documents")
	fl.BoolVar(&f.json, "json", false, "write the summary as JSON")
	return cmd
}

func (f *publishFlags) run(cmd *cobra.Command, paths []string) error {
	f.corpus.Format = corpus.Format(f.format)
	f.corpus.Tokens = f.fingerprint != ""
	if f.config.URL == "" {
		return usageError{errors.New("--nats is empty: want the address of a NATS server")}
	}
	for i := range paths {
		if paths[i] == "-" && len(paths) > 1 {
			return usageError{errors.New("- (standard input) can not be combined with other paths")}
		}
	}
	ctx := cmd.Context()
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	store, err := stream.Open(ctx, f.config, log)
	if err != nil {
		return err
	}
	err = f.publish(ctx, store, paths, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	return errors.Join(err, store.Close())
}

func (f *publishFlags) publish(ctx context.Context, store *stream.Store, paths []string, stdin io.Reader, stdout, stderr io.Writer) error {
	f.corpus.MaxDocument = store.Conn().MaxPayload()
	inputs, err := corpus.Open(paths, stdin, f.corpus)
	if err != nil {
		return err
	}
	started := time.Now()
	sum := published{
		Server: store.ClientURL(), Stream: store.Config().Name, Subject: store.Config().Subject + "." + f.source,
		Inputs: len(inputs), Skipped: map[string]int64{},
	}
	report := newPublishReport(stderr, inputs)
	// An interrupt stops the reading of files at once; the batch that is under way may still be committed.
	running := context.WithoutCancel(ctx)
	p, err := store.NewPublisher(running, f.source, stream.PublishOptions{OnWait: report.waits})
	if err != nil {
		return err
	}
	defer p.Close()
	stop := report.start(p)
	err = f.inputs(ctx, p, inputs, &sum)
	if flushErr := finish(ctx, running, p); err == nil {
		err = flushErr
	}
	stop()

	done := p.Progress()
	sum.Documents, sum.Bytes, sum.Duplicates, sum.LastSequence = done.Documents, done.Bytes, done.Duplicates, done.LastSequence
	sum.Seconds, sum.WaitedSeconds = time.Since(started).Seconds(), done.Waited.Seconds()
	if err != nil {
		// Which inputs are complete is known only when everything is committed.
		sum.InputsComplete = 0
		sum.Interrupted = ctx.Err() != nil
		if sum.Interrupted {
			err = errors.New("interrupted")
		}
		sum.Error = err.Error()
	}
	if writeErr := sum.write(stdout, f.json); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	if err != nil {
		return fmt.Errorf("%w: %d documents are committed; the same command again goes on from there", err, sum.Documents)
	}
	return nil
}

// stopPatience bounds how long an interrupted publish waits for the batch that is under way.
const stopPatience = 10 * time.Second

// finish waits until everything is committed. After an interrupt it does not wait for a full stream: the record tells the next
// publish what is committed.
func finish(ctx, running context.Context, p *stream.Publisher) error {
	if ctx.Err() == nil {
		_, err := p.Flush(ctx)
		if ctx.Err() == nil {
			return err
		}
	}
	if p.Progress().Waiting != "" {
		return ctx.Err()
	}
	patience, cancel := context.WithTimeout(running, stopPatience)
	defer cancel()
	_, err := p.Flush(patience)
	return err
}

func (f *publishFlags) inputs(ctx context.Context, p *stream.Publisher, inputs []*corpus.Input, sum *published) error {
	for _, in := range inputs {
		if err := f.input(ctx, p, in, sum); err != nil {
			return err
		}
		sum.InputsComplete++
	}
	return nil
}

// order is where an input's documents go: its record, or for standard input the publisher itself.
type order interface {
	Publish(ctx context.Context, origin string, m stream.Message) error
	Skip(ctx context.Context, origin string) error
	Finish(ctx context.Context) error
}

func (f *publishFlags) input(ctx context.Context, p *stream.Publisher, in *corpus.Input, sum *published) error {
	var to order = &unrecorded{p: p, source: f.source}
	if in.Fingerprint != "" {
		record, err := p.Resume(ctx, in.Name, in.Fingerprint)
		if err != nil {
			return err
		}
		if record.Complete() {
			in.Pass()
			return nil
		}
		to = record
	}
	for d, err := range in.Documents() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		reason := corpus.Reason("")
		var skip *corpus.SkipError
		var large *stream.TooLargeError
		origin := d.Origin
		switch {
		case errors.As(err, &skip):
			reason, origin = skip.Reason, skip.Origin
		case err != nil:
			return err
		case len(d.Data) == 0:
			reason = emptyDocument
		default:
			m := stream.Message{Name: d.ID, Path: d.Path, Domain: f.domain, Data: d.Data}
			if f.fingerprint != "" {
				m.ContentType, m.Tokenizer = stream.TypeTokens, f.fingerprint
			}
			err = to.Publish(ctx, origin, m)
			if err == nil {
				continue
			}
			if !errors.As(err, &large) {
				return err
			}
			reason = corpus.TooLarge
		}
		switch {
		case reason == corpus.TooLarge && !f.skipTooLarge:
			return fmt.Errorf("%w (--skip-too-large leaves out such documents)", err)
		case reason == corpus.BadRecord && !f.skipBad:
			return fmt.Errorf("%w (--skip-bad leaves out such lines and rows)", err)
		}
		sum.Skipped[string(reason)]++
		if origin == "" || large != nil {
			continue
		}
		if err := to.Skip(ctx, origin); err != nil {
			return err
		}
	}
	return to.Finish(ctx)
}

// unrecorded publishes what has no lasting name.
type unrecorded struct {
	p      *stream.Publisher
	source string
	index  int
}

func (u *unrecorded) Publish(ctx context.Context, origin string, m stream.Message) error {
	m.ID = stream.DocumentID(u.source, origin, u.index, m.Data)
	u.index++
	return u.p.Publish(ctx, m)
}

func (u *unrecorded) Skip(context.Context, string) error {
	u.index++
	return nil
}

func (u *unrecorded) Finish(context.Context) error { return nil }

func (s published) write(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "committed %d documents (%s) to %s in %.1f s", s.Documents, byteCount(s.Bytes), s.Subject, s.Seconds)
	if s.Seconds > 0 && s.Documents > 0 {
		fmt.Fprintf(&b, ", %.0f documents/s", float64(s.Documents)/s.Seconds)
	}
	if s.LastSequence > 0 {
		fmt.Fprintf(&b, "; last sequence of stream %s: %d", s.Stream, s.LastSequence)
	}
	fmt.Fprintf(&b, "\n%d of %d inputs complete", s.InputsComplete, s.Inputs)
	if s.Duplicates > 0 {
		fmt.Fprintf(&b, "; %d documents were already in the stream", s.Duplicates)
	}
	if s.WaitedSeconds > 0 {
		fmt.Fprintf(&b, "; waited %.1f s", s.WaitedSeconds)
	}
	b.WriteByte('\n')
	if line := skippedLine(s.Skipped); line != "" {
		fmt.Fprintf(&b, "left out: %s\n", line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
