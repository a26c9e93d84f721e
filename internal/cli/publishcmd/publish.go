// Package publishcmd implements the commands publish and import, which add documents to the stream.
package publishcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/corpus"
	"loaderd/internal/corpus/csvtable"
	"loaderd/internal/corpus/follow"
	"loaderd/internal/corpus/record"
	"loaderd/internal/objects"
	"loaderd/internal/publishing"
	"loaderd/internal/tracing"
	"loaderd/stream"
)

type publishFlags struct {
	config  stream.Config
	format  string
	corpus  corpus.Options
	options publishing.Options
	wait    time.Duration
	trace   tracing.Config
	tokens  tokensFlags
	meta    []string
	dryRun  bool
	json    bool

	following followFlags
}

// NewPublishCmd returns the command publish.
func NewPublishCmd() *cobra.Command {
	return publishCommand(&cobra.Command{
		Use:   "publish [flags] PATH...",
		Short: "Put files into the document stream",
		Long: `Publish puts documents into the document stream of a NATS server, in order, each exactly once.

A PATH is a file, a folder (searched recursively, in the order of names), a pipe, - for standard input, or an address in an object store,
which may be a pattern (* and **): s3://BUCKET/..., gs://BUCKET/..., az://CONTAINER/..., https://..., hf://datasets/OWNER/NAME[@REVISION]/...
Credentials are looked for where each cloud's own programs look. What a file holds is looked up in the content, whatever its name:
  JSON lines       a JSON object a line; the document is its field "text" (--text-column)
  JSON             the elements of one array, or objects on any lines; the document is the same field
  CSV, TSV         a record a document, below a header; the document is its column "text" (--text-column); see --csv-quoting
  Parquet, Arrow   a row a document, of a Parquet file or of an Arrow IPC file or stream (what Hugging Face datasets keep); the same column
  plain text       everything else, a file a document
What other libraries keep (datasets of Hugging Face, MDS, Megatron, token files, web archives, tars of samples) is read, too: loaderd import --help.
A file whose name promises one of these (.jsonl .ndjson .json .csv .tsv .parquet .arrow .feather) and that is not is an error; other names
promise plain text. In folders, binary and hidden files, and JSON and CSV without the field or column, are left out and counted. --format
says what it is where the content does not. --dry-run says what there is, and publishes nothing. Each but Parquet may be compressed (gzip, zstd, bzip2, xz), by any name.

The ledger (loaderd ledger --find) knows a document by its field "id", by its "path", "meta.path" or "url", and a plain file by its path as
it is given here. Nothing is taken for a duplicate because of these; --id-column says which field does that.

What is committed is recorded beside the stream (key-value bucket loaderd_publish), by source and input. The same command again
adds nothing; after an interruption, or a kill, it goes on where it stopped; of a file that has changed it adds what is new. Standard
input and pipes have no record: there only the server's own window (30 seconds) recognises what was sent before.

With --follow it goes on with files that appear, in the order in which they become whole, until SIGTERM. Names that begin with a dot, or end in
.tmp, .part, .partial or .crdownload, are passed over.

An input that cannot be read to its end does not keep the others from being published: it is reported at the end, and the exit status is 1.
A full stream makes publish wait until there is room, and a lost connection until it is back. It says so, and goes on by itself. To make
room, raise stream.max_bytes in the daemon's configuration. A server that cannot be reached at the start is an error after --wait.

Documents that every run over the stream would reject (token ids of another tokenizer, texts for a run that takes ids alone) are refused. The summary
counts what runs read and skipped during this publish, by reason, of all producers; it waits for a run while that reads on.

The exit status is 0 when everything is committed, 1 on an error, 2 when the command line is wrong, and 3 when everything is committed and a run could
not decode some of the documents that it read during this publish.`,
		Example: `  # files into a daemon on this machine
  loaderd publish corpus/*.jsonl.zst

  # a source tree under a source name of its own
  loaderd publish --source go --format text --skip-too-large "$(go env GOROOT)/src"

  # Parquet with another column, to a cluster with TLS and credentials
  loaderd publish --nats tls://nats-1:4222 --creds app.creds --tls-ca ca.pem --text-column content data/

  # where they are: S3, and a data set of the Hugging Face hub
  loaderd publish 's3://corpus/web/**/*.jsonl.zst' 'hf://datasets/HuggingFaceFW/fineweb-edu/sample/10BT/*.parquet'

  # files as they appear in a folder
  loaderd publish --follow --source crawl '/data/crawl/**/*.jsonl.zst'

  # documents that are already tokenized
  loaderd tokenize --tokenizer gpt2 docs.jsonl | loaderd publish --tokenizer gpt2 -`,
	})
}

// NewImportCmd returns the command import. It is publish with a help text for users of other data-set libraries.
func NewImportCmd() *cobra.Command {
	return publishCommand(&cobra.Command{
		Use:   "import [flags] PATH...",
		Short: "Put what other libraries keep into the document stream, or look what it is (--dry-run)",
		Long: `Import is publish, which reads what other libraries keep as it lies there. A PATH is a file or a folder:
  Hugging Face     a folder of datasets' save_to_disk: its parts in order, of several the one that --split names
  MDS              a folder of MosaicML Streaming: the shards of index.json, raw or compressed (zstd, gz, bz2, br, snappy), or all without one
  Megatron         X.bin with X.idx (MMIDIDX or TNTIDX) beside it; X, X.bin and X.idx mean both. A document may be several sequences
  NumPy            X.npy: of one dimension cut at --end-token or before --begin-token; of two, a row a document
  llm.c            files of llm.c and modded-nanogpt, cut in the same way
  token ids        any file of ids alone, with --token-type (OLMo-core's .npy are such files: uint16 or uint32, with label masks and boundaries)
  WARC, WET        records with text: conversions, and responses of plain text. HTML is left out and counted: no text is made of it
  WebDataset       a tar; a sample's text is KEY.txt, or the field "text" of KEY.json. Of token ids it is KEY.npy, or the field "ids"
and all that loaderd publish --help has. What a file holds is told by its content.

Token ids want to know their tokenizer, by --tokenizer or --tokenizer-fingerprint. With --tokenizer each id is compared with its vocabulary, and its end-of-text
token ends documents where nothing else is said.

--dry-run reads everything and publishes nothing, and needs no server: formats, documents, their lengths, fields, the first document, what would be left out and
why. It exits as the import would. Without it an import goes on where it stopped, adds nothing twice, and is said so, as loaderd publish.`,
		Example: `  # what is there?
  loaderd import --dry-run --tokenizer gpt2 corpus_text_document.idx

  # Megatron's pair; token files of OLMo-core; the training part of a dataset on disk; the WET files of a crawl
  loaderd import --tokenizer gpt2 corpus_text_document
  loaderd import --tokenizer ./tokenizer.json --token-type uint32 --end-token 100257 part-*.npy
  loaderd import --split train --text-column content my-dataset/
  loaderd import --skip-too-large CC-MAIN-*.warc.wet.gz`,
	})
}

// publishCommand gives a command the function and the flags of publish.
func publishCommand(cmd *cobra.Command) *cobra.Command {
	f := publishFlags{config: stream.Default()}
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) }
	fl := cmd.Flags()
	fl.StringVar(&f.config.URL, "nats", "nats://127.0.0.1:4222", "NATS servers, comma separated (nats:// or tls://)")
	fl.StringVar(&f.config.Credentials, "creds", "", "NATS credentials file")
	fl.StringVar(&f.config.Dir, "data-dir", command.DataDir(),
		"data folder of a daemon on this machine, which has the token for its server")
	fl.StringVar(&f.config.TokenFile, "token-file", os.Getenv("LOADERD_STREAM__TOKEN_FILE"),
		"file with the token of the server inside a daemon elsewhere: producer.token of its data folder")
	fl.StringVar(&f.config.NKey, "nkey", "", "NKey seed file")
	fl.StringVar(&f.config.TLS.CA, "tls-ca", "", "certificates of the authorities that signed the server's")
	fl.StringVar(&f.config.TLS.Cert, "tls-cert", "", "client certificate, with --tls-key")
	fl.StringVar(&f.config.TLS.Key, "tls-key", "", "key of the client certificate")
	fl.DurationVar(&f.wait, "wait", 30*time.Second, "how long to try to reach a server at the start; 0 tries once")
	fl.StringVar(&f.config.Name, "stream", f.config.Name, "document stream")
	fl.StringVar(&f.config.Subject, "subject", f.config.Subject, "subject that documents are below: SUBJECT.SOURCE")
	fl.StringVar(&f.options.Source, "source", "files", "name of the source: letters, digits, - and _")
	fl.StringVar(&f.options.Domain, "domain", "", "domain of all documents (header Loaderd-Domain)")
	fl.StringVar(&f.format, "format", string(corpus.Auto), "format of all files: auto (by content), text, jsonl, json, "+
		"csv, parquet, arrow, mds, megatron, tokens, warc or tar")
	fl.Var(&onceValue{value: &f.corpus.TextField}, "text-column",
		`JSON field or column of the document (default "text", of token ids "ids")`)
	fl.Var(&onceValue{value: &f.corpus.IDField}, "id-column",
		"JSON field or column of the document's id; the daemon drops documents of an equal id")
	fl.StringVar(&f.corpus.Encoding, "encoding", "",
		"encoding of text files: latin1, windows-1252, shift_jis, gb18030, utf-16, ... (default UTF-8; UTF-16 where a "+
			"byte order mark says so)")
	fl.StringVar(&f.corpus.CSV.Quoting, "csv-quoting", csvtable.QuotingAuto, "whether quotes enclose fields of "+
		"CSV and TSV: auto (by the whole table), on, or off (quotes are text, a line is a record)")
	fl.StringVar(&f.corpus.CSV.Escape, "csv-escape", csvtable.EscapeAuto,
		"what makes the next character of CSV and TSV text: auto (by the whole table), none or backslash")
	fl.StringSliceVar(&f.meta, "meta", nil, "fields or columns that come along with documents: `NAME,...`, or "+
		"NAME=COLUMN, with :string, :int64 or :float64 behind what is to become that")
	fl.Var(&onceValue{value: &f.corpus.Split}, "split",
		"part of a saved dataset of Hugging Face, or all of them; an error for anything that has no splits")
	f.tokens.register(fl, &f.options.Fingerprint)
	fl.BoolVar(&f.dryRun, "dry-run", false, "read everything, say what it is, and publish nothing")
	fl.BoolVar(&f.options.SkipTooLarge, "skip-too-large", false,
		"leave out, and count, documents larger than the server takes")
	fl.BoolVar(&f.options.SkipBad, "skip-bad", false, "leave out, and count, lines and rows that are not documents")
	fl.StringVar(&f.trace.Endpoint, "trace", "",
		"URL of an OpenTelemetry collector (OTLP over HTTP): sampled documents are followed from here to the ranks")
	fl.Float64Var(&f.trace.Share, "trace-share", 0.0001, "share of the documents that are sampled, with --trace")
	fl.BoolVar(&f.json, "json", false, "write the summary as JSON")
	f.following.register(fl)
	return cmd
}

func (f *publishFlags) run(cmd *cobra.Command, paths []string) error {
	f.corpus.Format = corpus.Format(f.format)
	for _, text := range f.meta {
		m, err := record.ParseMeta(text)
		if err != nil {
			return command.Usage(fmt.Errorf("--meta: %w", err))
		}
		f.corpus.Meta = append(f.corpus.Meta, m)
	}
	if err := f.tokens.apply(cmd.Flags(), &f.corpus, &f.options.Fingerprint); err != nil {
		return err
	}
	if err := f.check(paths, cmd.Flags().Changed("tokenizer-fingerprint")); err != nil {
		return command.Usage(err)
	}
	if err := f.following.check(cmd.Flags().Changed, paths, f.dryRun); err != nil {
		return command.Usage(err)
	}
	ctx := cmd.Context()
	log := slog.New(command.NewRepeatFilter(slog.NewTextHandler(cmd.ErrOrStderr(),
		&slog.HandlerOptions{Level: slog.LevelWarn})))
	f.corpus.Stores = objects.New(objects.Options{Log: log, OnRetry: func(problem string) {
		if problem != "" {
			log.Warn("repeating a request to an object store", "problem", problem)
		}
	}})
	if f.dryRun {
		return f.survey(ctx, paths, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	store, err := command.Connect(ctx, f.config, f.wait, log, stream.OpenProducer)
	if err != nil {
		return err
	}
	if f.trace.Endpoint != "" {
		tracer, err := tracing.New(ctx, f.trace, "loaderd publish", log)
		if err != nil {
			return errors.Join(err, store.Close())
		}
		defer tracer.Close(context.WithoutCancel(ctx))
		f.options.Tracer = tracer
	}
	err = f.publish(ctx, store, paths, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	if err = errors.Join(err, store.Close()); err != nil {
		return command.NameFlags(err)
	}
	return nil
}

func (f *publishFlags) publish(ctx context.Context, store *stream.Store, paths []string, stdin io.Reader, stdout,
	stderr io.Writer) error {
	f.corpus.MaxDocument = store.Conn().MaxPayload()
	var inputs []*corpus.Input
	var files *follow.Follower
	var err error
	if f.following.on {
		files, err = follow.New(paths, f.following.settle)
	} else {
		inputs, err = corpus.Open(ctx, paths, stdin, f.corpus)
	}
	if err != nil {
		return err
	}
	report := newPublishReport(ctx, stderr, inputs)
	f.options.OnWait = report.waits
	p, err := publishing.Open(ctx, store, inputs, f.options)
	if err != nil {
		return err
	}
	defer p.Close()
	before := publishing.ListStreamRuns(ctx, p.Documents(), math.MaxUint64)
	report.warn(audienceWarning(before))
	if rejects, all := before.CheckFingerprint(f.options.Fingerprint); all {
		return fmt.Errorf("%w. Publish texts or ids as the run takes them (--tokenizer), or start a run with the other "+
			"tokenizer (loaderd serve --run NAME)", rejects)
	} else if rejects != nil {
		report.warn(rejects.Error())
	}
	stop := report.start(p.Progress)
	var sum publishing.Summary
	if files != nil {
		sum, err = f.follow(ctx, p, files, report.warn)
	} else {
		sum, err = p.Run(ctx)
	}
	stop()

	report.warn(repeatsWarning(sum.Repeated))
	report.warn(replacedLine(sum.Replaced))
	if sum.Documents > 0 && ctx.Err() == nil {
		after := publishing.ListStreamRuns(ctx, p.Documents(), sum.LastSequence)
		if len(after.Sealed) != len(before.Sealed) { // sealed in the meantime
			report.warn(audienceWarning(after))
		}
		sum.UnreadBy = after.Sealed
		sum.Runs = publishing.AwaitIntake(ctx, p.Documents(), before, sum.LastSequence)
	}
	nothing := err == nil && files == nil && sum.IsEmpty()
	switch {
	case nothing:
		err = noDocuments(paths, sum.NoText)
	case sum.Interrupted:
		err = errors.New("interrupted")
	case err != nil:
		err = nameSkipFlag(err)
	}
	if err != nil {
		sum.Error = err.Error()
	}
	if writeErr := writePublished(stdout, sum, f.json); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	if err == nil {
		return rejectedBy(sum.Runs)
	}
	if nothing {
		return err
	}
	return withCommitted(err, sum, inputs)
}

// withCommitted adds the number of documents that were committed nevertheless to an error.
func withCommitted(err error, sum publishing.Summary, inputs []*corpus.Input) error {
	committed := documentCount(sum.Documents)
	if publishing.HasRecords(inputs) && (sum.Interrupted || publishing.IsConnectionError(err)) {
		return fmt.Errorf("%w: committed %s; the same command again goes on from there", err, committed)
	}
	return fmt.Errorf("%w: committed %s", err, committed)
}

// nameSkipFlag adds the flag that skips invalid documents to the error about one.
func nameSkipFlag(err error) error {
	var refused *publishing.RefusedError
	switch {
	case !errors.As(err, &refused):
		return err
	case refused.Reason == record.TooLarge:
		return fmt.Errorf("%w (--skip-too-large leaves out such documents)", err)
	}
	return fmt.Errorf("%w (--skip-bad leaves out such lines and rows)", err)
}
