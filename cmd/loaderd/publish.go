package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
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
	Already        int64            `json:"already"`    // in the stream already, of inputs that were complete
	Skipped        map[string]int64 `json:"skipped"`    // documents and files left out, by reason
	LastSequence   uint64           `json:"last_sequence"`
	Seconds        float64          `json:"seconds"`
	WaitedSeconds  float64          `json:"waited_seconds"` // for a full stream or a lost connection
	Interrupted    bool             `json:"interrupted"`
	Repeated       *repeats         `json:"repeated,omitempty"`  // of the duplicates, what other inputs had published
	UnreadBy       []unreadBy       `json:"unread_by,omitempty"` // sealed runs that do not read the last of these documents
	Error          string           `json:"error,omitempty"`

	passed int   // inputs that were complete before
	found  bool  // some input had something that is, or was to be, a document
	noText error // of the first file that is left out for it
}

// nothing says that there was not one document anywhere.
func (s published) nothing() bool { return !s.found && s.passed == 0 }

// emptyDocument is the reason of documents without content, beside those of package corpus.
const emptyDocument = "empty"

type publishFlags struct {
	config       stream.Config
	source       string
	domain       string
	format       string
	corpus       corpus.Options
	fingerprint  string
	wait         time.Duration
	skipTooLarge bool
	skipBad      bool
	json         bool
	pauses       pauses
}

func newPublishCmd() *cobra.Command {
	f := publishFlags{config: stream.Default()}
	cmd := &cobra.Command{
		Use:   "publish [flags] PATH...",
		Short: "Put files into the document stream",
		Long: `Publish puts documents into the document stream of a NATS server, in order, each exactly once.

A PATH is a file, a folder (searched recursively, in the order of names), a pipe, or - for standard input. What it holds is looked up
in the content, whatever its name:
  JSON lines       a JSON object a line; the document is its field "text" (--text-column)
  JSON             the elements of one array, or objects on any lines; the document is the same field
  CSV, TSV         a record a document, below a header; the document is its column "text" (--text-column)
  Parquet, Arrow   a row a document, of a Parquet file or of an Arrow IPC file or stream (what Hugging Face datasets keep); the same column
  plain text       everything else, a file a document
A file whose name promises one of these (.jsonl .ndjson .json .csv .tsv .parquet .arrow .feather) and that is not is an error; other names
promise plain text. In folders, binary and hidden files, and JSON and CSV without the field or column, are left out and counted. --format
says what it is where the content does not. Each but Parquet may be compressed (gzip, zstd, bzip2, xz), by any name.

The ledger (loaderd ledger --find) knows a document by its field "id", by its "path", "meta.path" or "url", and a plain file by its path as
it is given here. Nothing is taken for a duplicate because of these; --id-column says which field does that.

What is committed is recorded beside the stream (key-value bucket loaderd_publish), by source and input. The same command again
adds nothing; after an interruption, or a kill, it goes on where it stopped; of a file that has changed it adds what is new. Standard
input and pipes have no record: there only the server's own window (two minutes) recognises what was sent before.

A full stream makes publish wait until there is room, and a lost connection until it is back. It says so, and goes on by itself. To make
room, raise stream.max_bytes in the daemon's configuration. A server that cannot be reached at the start is an error after --wait.`,
		Example: `  # files into a daemon on this machine
  loaderd publish corpus/*.jsonl.zst

  # a source tree under a source name of its own
  loaderd publish --source go --skip-too-large "$(go env GOROOT)/src"

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
	fl.DurationVar(&f.wait, "wait", 30*time.Second, "how long to try to reach a server at the start; 0 tries once")
	fl.StringVar(&f.config.Name, "stream", f.config.Name, "document stream")
	fl.StringVar(&f.config.Subject, "subject", f.config.Subject, "subject that documents are below: SUBJECT.SOURCE")
	fl.StringVar(&f.source, "source", "files", "name of the source: letters, digits, - and _")
	fl.StringVar(&f.domain, "domain", "", "domain of all documents (header Loaderd-Domain)")
	fl.StringVar(&f.format, "format", string(corpus.Auto), "format of all files: auto (by content), text, jsonl, json, csv, parquet or arrow")
	fl.StringVar(&f.corpus.TextField, "text-column", "", `JSON field or column of the document (default "text", of token ids "ids")`)
	fl.StringVar(&f.corpus.IDField, "id-column", "", "JSON field or column of the document's id; the daemon drops documents of an equal id")
	fl.StringVar(&f.fingerprint, "tokenizer-fingerprint", "", "documents are token ids, made by the tokenizer of this fingerprint")
	fl.BoolVar(&f.skipTooLarge, "skip-too-large", false, "leave out, and count, documents larger than the server takes")
	fl.BoolVar(&f.skipBad, "skip-bad", false, "leave out, and count, lines and rows that are not documents")
	fl.BoolVar(&f.json, "json", false, "write the summary as JSON")
	return cmd
}

func (f *publishFlags) run(cmd *cobra.Command, paths []string) error {
	f.corpus.Format = corpus.Format(f.format)
	f.corpus.Tokens = f.fingerprint != ""
	if err := f.check(paths, cmd.Flags().Changed("tokenizer-fingerprint")); err != nil {
		return usageError{err}
	}
	ctx := cmd.Context()
	log := slog.New(newSeldom(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn})))
	store, err := f.connect(ctx, log)
	if err != nil {
		return err
	}
	err = f.publish(ctx, store, paths, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	if err = errors.Join(err, store.Close()); err != nil {
		return flagNamed{err}
	}
	return nil
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
	report := newPublishReport(ctx, stderr, inputs)
	// An interrupt stops the reading of files at once; the batch that is under way may still be committed.
	running := context.WithoutCancel(ctx)
	p, err := store.NewPublisher(running, f.source, stream.PublishOptions{OnWait: report.waits})
	if err != nil {
		return err
	}
	defer p.Close()
	before := audienceOf(ctx, store, math.MaxUint64)
	report.warn(before.warning())
	stop := report.start(p)
	resume := f.pauses.watch(ctx, p)
	err = f.inputs(ctx, p, inputs, &sum)
	resume()
	if flushErr := finish(ctx, running, p); err == nil {
		err = flushErr
	}
	stop()

	done := p.Progress()
	sum.Documents, sum.Bytes, sum.Duplicates, sum.LastSequence = done.Documents, done.Bytes, done.Duplicates, done.LastSequence
	sum.Seconds, sum.WaitedSeconds = time.Since(started).Seconds(), done.Waited.Seconds()
	sum.Repeated = repeatsOf(running, p, done)
	report.warn(sum.Repeated.warning())
	if done.Documents > 0 && ctx.Err() == nil {
		after := audienceOf(ctx, store, done.LastSequence)
		if len(after.sealed) != len(before.sealed) { // sealed since
			report.warn(after.warning())
		}
		sum.UnreadBy = after.sealed
	}
	if err != nil {
		// Which inputs are complete is known only when everything is committed.
		sum.InputsComplete = 0
		sum.Interrupted = ctx.Err() != nil
		if sum.Interrupted {
			err = errors.New("interrupted")
		}
		sum.Error = err.Error()
	}
	nothing := err == nil && sum.nothing()
	if nothing {
		err = noDocuments(paths, sum.noText)
		sum.Error = err.Error()
	}
	if writeErr := sum.write(stdout, f.json); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	switch {
	case err == nil || nothing:
		return err
	case recorded(inputs) && (sum.Interrupted || lostConnection(err)):
		return fmt.Errorf("%w: committed %s; the same command again goes on from there", err, documentCount(sum.Documents))
	}
	return fmt.Errorf("%w: committed %s", err, documentCount(sum.Documents))
}

// recorded says whether the server knows of all inputs what is committed.
func recorded(inputs []*corpus.Input) bool {
	return !slices.ContainsFunc(inputs, func(in *corpus.Input) bool { return in.Fingerprint == "" })
}

// noDocuments is an error that says, where some file does not have the text where it is looked for, of the first what it has.
func noDocuments(paths []string, noText error) error {
	err := errors.New("no documents in standard input")
	if paths[0] != "-" {
		err = fmt.Errorf("no documents in %s", strings.Join(paths, ", "))
	}
	if noText != nil {
		err = fmt.Errorf("%w: %w", err, noText)
	}
	return err
}

func documentCount(n int64) string {
	if n == 1 {
		return "1 document"
	}
	return fmt.Sprintf("%d documents", n)
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
			sum.Already += record.Stored()
			sum.passed++
			return nil
		}
		to = record
	}
	found := false
	for d, err := range in.Documents(ctx) {
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
			m := stream.Message{Name: d.ID, Label: d.Label, Path: d.Path, Domain: f.domain, Data: d.Data}
			if f.fingerprint != "" {
				m.ContentType, m.Tokenizer = stream.TypeTokens, f.fingerprint
			}
			found = true
			err = to.Publish(ctx, origin, m)
			f.pauses.offered.Add(1)
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
		found = found || reason == corpus.TooLarge || reason == corpus.BadRecord
		sum.Skipped[string(reason)]++
		if reason == corpus.NoText && sum.noText == nil {
			sum.noText = err
		}
		if origin == "" || large != nil {
			continue
		}
		if err := to.Skip(ctx, origin); err != nil {
			return err
		}
	}
	if !found {
		return nil // not complete: the same command is to find nothing once more, and say so
	}
	sum.found = true
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
	before := s.Already + s.Duplicates
	if s.Documents == 0 && before > 0 {
		fmt.Fprintf(&b, "already published: %s; nothing is new for %s", documentCount(before), s.Subject)
	} else {
		fmt.Fprintf(&b, "committed %s (%s) to %s in %.1f s", documentCount(s.Documents), byteCount(s.Bytes), s.Subject, s.Seconds)
	}
	if s.Seconds > 0 && s.Documents > 0 {
		fmt.Fprintf(&b, ", %.0f documents/s", float64(s.Documents)/s.Seconds)
	}
	if s.LastSequence > 0 {
		fmt.Fprintf(&b, "; last sequence of stream %s: %d", s.Stream, s.LastSequence)
	}
	fmt.Fprintf(&b, "\n%d of %d inputs complete", s.InputsComplete, s.Inputs)
	if s.Documents > 0 && before > 0 {
		fmt.Fprintf(&b, "; already published: %s", documentCount(before))
	}
	if s.WaitedSeconds > 0 {
		fmt.Fprintf(&b, "; waited %.1f s", s.WaitedSeconds)
	}
	b.WriteByte('\n')
	if line := skippedLine(s.Skipped); line != "" {
		fmt.Fprintf(&b, "left out: %s\n", line)
	}
	if s.noText != nil {
		fmt.Fprintf(&b, "the first without text: %v\n", s.noText)
	}
	if s.Repeated != nil {
		fmt.Fprintln(&b, s.Repeated.line())
	}
	if line := unreadLine(s.UnreadBy); line != "" {
		fmt.Fprintln(&b, line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
