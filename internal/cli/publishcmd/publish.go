// Package publishcmd implements the commands publish and import, which add documents to the stream.
package publishcmd

import (
	"cmp"
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
	config   stream.Config
	daemon   command.DaemonFlag
	format   string
	corpus   corpus.Options
	options  publishing.Options
	named    bool // --source is set
	wait     time.Duration
	trace    tracing.Config
	tokens   tokensFlags
	meta     []string
	dryRun   bool
	json     bool
	untilEOF bool

	following followFlags
}

// NewPublishCmd returns the command publish.
func NewPublishCmd() *cobra.Command {
	return publishCommand(&cobra.Command{
		Use:   "publish [flags] PATH...",
		Short: "Publish files to the document stream",
		Long: `Publish documents to the document stream of a NATS server, in order, each
exactly once.

A PATH is a file, a folder (searched recursively, in the order of names), a
pipe, or - for standard input. It can also be an address in an object store. An
address may be a pattern (* and **):
  s3://BUCKET/...  gs://BUCKET/...  az://CONTAINER/...  https://...
  hf://datasets/OWNER/NAME[@REVISION]/...
Credentials are those of each cloud's own programs.

The format is detected from the content, not from the name:
  JSON lines      one JSON object per line; the document is its field "text"
                  (--text-column)
  JSON            the elements of one array, or objects on any lines; the
                  document is the same field
  CSV, TSV        one document per record, below a header; the document is its
                  column "text" (--text-column); see --csv-quoting
  Parquet, Arrow  one document per row, of a Parquet file or of an Arrow IPC
                  file or stream (as in Hugging Face datasets); the same column
  plain text      everything else, one document per file
Each but Parquet may be compressed (gzip, zstd, bzip2, xz), with any name.
Formats of other libraries are also read: datasets of Hugging Face, MDS,
Megatron, token files, web archives, and tars of samples. See loaderd import
--help.

A file is rejected if its name promises a format (.jsonl .ndjson .json .csv .tsv
.parquet .arrow .feather) that its content does not have. Other names promise
plain text. In folders, the command skips and counts binary files, hidden files,
and JSON and CSV without the field or column. --format sets the format if the
content does not show it. --dry-run reports what the paths contain, and
publishes nothing.

loaderd ledger --find finds a document by its field "id", "path", "meta.path" or
"url". It finds a plain file by its path as it is given here. These fields do
not make a document a duplicate. --id-column names the field that does.

The key-value bucket loaderd_publish of the server records what is committed, by
source and input. The same command again adds nothing. After an interruption or
a kill, it continues where it stopped. Of a changed file, it adds what is new.
Standard input and pipes have no record. For them, the server detects
documents that were sent in the last 30 seconds, and a run skips those whose
ids are among the last ones of the source (documents.dedupe).

With --interleave the command mixes the documents of all files. It reads 32
files at a time, each at a rate that fits its size. Use it for a corpus that is
stored by kind. Each file keeps its order, as does a folder of plain text. The
order depends only on the files, so an interrupted command continues it.
Standard input and pipes follow at the end.

With --follow the command also publishes files that appear, in the order in
which they become complete, until SIGTERM. It ignores names that begin with a
dot or end in .tmp, .part, .partial or .crdownload.

If an input cannot be read to its end, the others are still published. The error
is reported at the end, and the exit status is 1. The command waits while the
stream is full, and while the connection is lost. It reports the wait and
continues automatically. To make room, raise stream.max_bytes in the daemon's
configuration. A server that cannot be reached at the start is an error after
--wait.

Documents that every run over the stream would reject are not published.
Examples are token ids of another tokenizer, or texts for a run that takes only
ids. The summary counts the documents of all producers that runs read and
skipped during this publish, by reason. It waits for a run that is still
reading.

The exit status is 0 if everything is committed, 1 on an error, and 2 if the
command line is wrong. It is 3 if everything is committed, and a run could not
decode some of the documents that it read during this publish.`,
		Example: `  # files to a daemon on this machine
  loaderd publish corpus/*.jsonl.zst

  # a source tree with its own source name
  loaderd publish --source go --format text \
      --skip-too-large "$(go env GOROOT)/src"

  # Parquet with another column, to a cluster with TLS and credentials
  loaderd publish --daemon tls://nats-1:4222 --creds app.creds \
      --tls-ca ca.pem --text-column content data/

  # from object stores: S3, and a dataset of the Hugging Face hub
  loaderd publish 's3://corpus/web/**/*.jsonl.zst' \
      'hf://datasets/HuggingFaceFW/fineweb-edu/sample/10BT/*.parquet'

  # files as they appear in a folder
  loaderd publish --follow --source crawl '/data/crawl/**/*.jsonl.zst'

  # pre-tokenized documents
  loaderd tokenize --tokenizer gpt2 docs.jsonl | loaderd publish \
      --tokenizer gpt2 -`,
	})
}

// NewImportCmd returns the command import. It is publish with a help text for users of other dataset libraries.
func NewImportCmd() *cobra.Command {
	return publishCommand(&cobra.Command{
		Use:   "import [flags] PATH...",
		Short: "Import datasets into the document stream",
		Long: `Import datasets of other libraries into the document stream. The command is
publish, which reads these formats without conversion. A PATH is a file or a
folder:
  Hugging Face  a folder of save_to_disk of datasets: its parts in order; of
                several splits, the one that --split names
  MDS           a folder of MosaicML Streaming: the shards of index.json, or all
                without it; raw or compressed (zstd, gz, bz2, br, snappy)
  Megatron      X.bin with X.idx (MMIDIDX or TNTIDX); X, X.bin and X.idx mean
                both; a document may be several sequences
  NumPy         X.npy: with one dimension, cut after --end-token or before
                --begin-token; with two, one document per row
  llm.c         files of llm.c and modded-nanogpt, cut in the same way
  token ids     any file of only ids, with --token-type (as OLMo-core's .npy:
                uint16 or uint32, with label masks and boundaries)
  WARC, WET     records with text: conversions, and responses of plain text;
                HTML is skipped and counted, it is not converted to text
  WebDataset    a tar; a sample's text is KEY.txt, or the field "text" of
                KEY.json; its token ids are KEY.npy, or the field "ids"
It also reads every format of loaderd publish --help. The format is detected
from the content.

Token ids need their tokenizer, by --tokenizer or --tokenizer-fingerprint. With
--tokenizer, each id is compared with the vocabulary. Its end-of-text token ends
documents unless a flag or the format defines another.

--dry-run reads everything, publishes nothing and needs no server. It reports
formats, documents, their lengths, fields, the first document, and what would be
skipped and why. Its exit status is that of the import. Without --dry-run, an
import continues where it stopped, adds nothing twice, and reports this, as
loaderd publish does.`,
		Example: `  # report what the paths contain
  loaderd import --dry-run --tokenizer gpt2 corpus_text_document.idx

  # Megatron; tokens of OLMo-core; a split of a saved dataset; WET files
  loaderd import --tokenizer gpt2 corpus_text_document
  loaderd import --tokenizer ./tokenizer.json --token-type uint32 \
      --end-token 100257 part-*.npy
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
	f.daemon.RegisterNATS(cmd)
	fl.StringVar(&f.config.Credentials, "creds", "", "NATS credentials file")
	fl.StringVar(&f.config.TokenFile, "token-file", os.Getenv("LOADERD_STREAM__TOKEN_FILE"),
		"token file for the embedded server of a remote daemon: producer.token of its data folder")
	fl.StringVar(&f.config.NKey, "nkey", "", "NKey seed file")
	fl.StringVar(&f.config.TLS.CA, "tls-ca", "", "certificates of the authorities that signed the server's")
	fl.StringVar(&f.config.TLS.Cert, "tls-cert", "", "client certificate, with --tls-key")
	fl.StringVar(&f.config.TLS.Key, "tls-key", "", "key of the client certificate")
	fl.DurationVar(&f.wait, "wait", 30*time.Second, "time limit for reaching a server at the start; 0 tries once")
	fl.StringVar(&f.config.Name, "stream", f.config.Name, "document stream; that of a source with a separate stream is "+
		"found by --source")
	fl.StringVar(&f.config.Subject, "subject", f.config.Subject, "subject prefix of documents: SUBJECT.SOURCE")
	fl.StringVar(&f.options.Source, "source", "files", "name of the source: letters, digits, - and _")
	fl.StringVar(&f.options.Domain, "domain", "", "domain of all documents (header Loaderd-Domain)")
	fl.StringVar(&f.format, "format", string(corpus.Auto), "format of all files: auto (by content), text, jsonl, json, "+
		"csv, parquet, arrow, mds, megatron, tokens, warc or tar")
	fl.Var(&onceValue{value: &f.corpus.TextField}, "text-column",
		`JSON field or column of the document (default "text", for token ids "ids")`)
	fl.Var(&onceValue{value: &f.corpus.IDField}, "id-column",
		"JSON field or column of the document's id; the daemon drops documents with equal ids")
	fl.StringVar(&f.corpus.Encoding, "encoding", "",
		"encoding of text files: latin1, windows-1252, shift_jis, gb18030, utf-16, ... "+
			"(default UTF-8, or UTF-16 by byte order mark)")
	fl.StringVar(&f.corpus.CSV.Quoting, "csv-quoting", csvtable.QuotingAuto,
		"quoted fields in CSV and TSV: auto (by the whole table), on, or off (quotes are text, a line is a record)")
	fl.StringVar(&f.corpus.CSV.Escape, "csv-escape", csvtable.EscapeAuto,
		"escape character in CSV and TSV: auto (by the whole table), none or backslash")
	fl.StringSliceVar(&f.meta, "meta", nil, "fields or columns to store with documents: `NAME,...` or NAME=COLUMN, "+
		"with optional type :string, :int64 or :float64")
	fl.Var(&onceValue{value: &f.corpus.Split}, "split",
		"split of a saved Hugging Face dataset, or all; an error for input without splits")
	f.tokens.register(fl, &f.options.Fingerprint)
	fl.BoolVar(&f.dryRun, "dry-run", false, "read everything, report what it contains, and publish nothing")
	fl.BoolVar(&f.options.Interleave, "interleave", false,
		"mix the documents of all files, in a fixed order, instead of one file after another")
	fl.BoolVar(&f.options.SkipTooLarge, "skip-too-large", false,
		"skip and count documents larger than the server accepts")
	fl.BoolVar(&f.options.SkipInvalid, "skip-invalid", false, "skip and count lines and rows that are not documents")
	fl.StringVar(&f.trace.Endpoint, "trace", "",
		"URL of an OpenTelemetry collector (OTLP over HTTP) for traces of sampled documents up to the ranks")
	fl.Float64Var(&f.trace.Share, "trace-share", 0.0001, "with --trace: share of the documents to sample")
	fl.BoolVar(&f.json, "json", false, "print the summary as JSON")
	fl.BoolVar(&f.untilEOF, "until-eof", false,
		"also stop at the end of standard input, to end together with the program that started the command")
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
	f.corpus.Interleaved = f.options.Interleave
	f.named = cmd.Flags().Changed("source")
	if err := f.check(paths, cmd.Flags().Changed("tokenizer-fingerprint")); err != nil {
		return command.Usage(err)
	}
	if err := f.following.check(cmd.Flags().Changed, paths, f.dryRun); err != nil {
		return command.Usage(err)
	}
	ctx := cmd.Context()
	if f.untilEOF {
		var cancel context.CancelFunc
		ctx, cancel = command.WhileOpen(ctx, cmd.InOrStdin())
		defer cancel()
	}
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
	if err := f.findServers(ctx); err != nil {
		return err
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

// findServers completes the settings of the connection with those of the daemon.
func (f *publishFlags) findServers(ctx context.Context) error {
	d, err := f.daemon.Find()
	if err != nil {
		return err
	}
	if f.config.URL, err = d.AwaitNATS(ctx, f.wait); err != nil {
		return err
	}
	f.config.Dir = d.TokenFolder()
	f.config.TokenFile = cmp.Or(f.config.TokenFile, d.ProducerToken)
	f.config.TLS.CA = cmp.Or(f.config.TLS.CA, d.CA)
	if f.config.Credentials+f.config.NKey == "" {
		f.config.Credentials, f.config.NKey = d.Credentials, d.NKey
	}
	if f.config.TLS.Cert == "" {
		f.config.TLS.Cert, f.config.TLS.Key = d.Cert, d.Key
	}
	for _, e := range f.config.Validate() {
		return command.Usage(command.NameFlags(fmt.Errorf("stream.%w", e)))
	}
	return nil
}

// sourceWarning returns a warning if the named source has no separate stream, empty otherwise.
func (f *publishFlags) sourceWarning(stream string) string {
	if !f.named || stream != f.config.Name {
		return ""
	}
	return fmt.Sprintf("stream %s has the documents of all sources: --source %s only names them in their subject and "+
		"ids; a run takes sources by weight if its configuration has them", stream, f.options.Source)
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
	report.warn(f.sourceWarning(p.Documents().Config().Name))
	before := publishing.ListStreamRuns(ctx, p.Documents(), math.MaxUint64)
	report.warn(audienceWarning(before))
	if rejects, all := before.CheckFingerprint(f.options.Fingerprint); all {
		return fmt.Errorf("%w. Publish texts or ids that the run accepts (--tokenizer), or start a run with the other "+
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
	report.warn(metaWarning(sum, f.corpus.Meta))
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
		return fmt.Errorf("%w: committed %s; run the same command again to continue", err, committed)
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
		return fmt.Errorf("%w (--skip-too-large skips such documents)", err)
	}
	return fmt.Errorf("%w (--skip-invalid skips such lines and rows)", err)
}
