package dlqcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/humanize"
	"loaderd/stream/deadletter"
	"loaderd/stream/retention"
)

func newDLQRetryCmd() *cobra.Command {
	var letters deadLetters
	var edit string
	var headers []string
	var all, dryRun bool
	cmd := &cobra.Command{
		Use:   "retry (LETTER... | --all | --reason R | --since T)",
		Short: "Publish dead letters again, unchanged or edited",
		Long: `Publish dead letters again as new documents at the end of their stream. Payload,
subject and headers are those of the original. The header Loaderd-Retry-Of names
the letter. The letters are kept. Each letter is published again only once,
which is recorded with the documents. A second retry skips it, and an
interrupted retry continues. Two simultaneous retries do not publish twice: a
retry waits up to a minute for another one that runs or was killed.

--edit COMMAND runs a command for each letter with sh -c. The command reads the
payload from standard input and writes the edited payload to standard output.
Its environment has LOADERD_LETTER, LOADERD_SOURCE, LOADERD_REASON,
LOADERD_PROBLEM, LOADERD_SUBJECT and LOADERD_SEQUENCE. If the command fails, the
letter is not published. --header replaces a header, such as a wrong
Content-Type. A document that still cannot be decoded becomes a new letter.

A payload that was too large for a letter is read from the document stream while
the stream contains it. A sealed stream (loaderd source seal) accepts no
documents. In that case, export the letters and publish them to another source.
A sealed run (loaderd seal) reads no documents after its end.`,
		Example: `  loaderd dlq retry 17 --edit 'iconv -f latin1 -t utf-8' \
      --daemon /data/loaderd
  loaderd dlq retry --reason NO_TOKENIZER --dry-run -c loaderd.yaml
  loaderd dlq retry --reason BAD_CONTENT_TYPE \
      --header Content-Type=text/plain -c loaderd.yaml
  loaderd dlq retry --all --source math -c loaderd.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			numbers, err := letterNumbers(args)
			if err != nil {
				return err
			}
			chosen := letters.source != "" || len(letters.reasons) > 0 || letters.since > 0
			switch {
			case len(numbers) > 0 && (all || len(letters.reasons) > 0 || letters.since > 0):
				return command.Usage(errors.New("want either the numbers of letters, or --reason, --since or --all"))
			case len(numbers) == 0 && !chosen && !all:
				return command.Usage(errors.New("no letters selected: want their numbers, --reason, --source, --since or --all"))
			}
			replace, err := readHeaders(headers)
			if err != nil {
				return err
			}
			return letters.with(cmd, func(ctx context.Context, boxes []*deadletter.Queue) error {
				r := retrying{out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr(), dryRun: dryRun, edit: edit, headers: replace}
				return r.do(ctx, &letters, boxes, numbers)
			})
		},
	}
	letters.register(cmd)
	letters.registerChoice(cmd)
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "all letters, of all sources unless --source is set")
	f.StringVar(&edit, "edit", "",
		"`command` that reads a payload from standard input and writes the edited one to standard output")
	f.StringArrayVar(&headers, "header", nil,
		"`NAME=VALUE`: new value of a header; NAME= removes the header; may be repeated")
	f.BoolVar(&dryRun, "dry-run", false,
		"run the command and report what would be published, but publish and record nothing")
	return cmd
}

// retrying republishes letters and reports the results.
type retrying struct {
	out, errs io.Writer
	edit      string
	headers   map[string]string
	dryRun    bool

	published, already, left int
	first, last              uint64 // new documents of the box
}

func (r *retrying) do(ctx context.Context, d *deadLetters, boxes []*deadletter.Queue, numbers []uint64) error {
	if len(numbers) > 0 {
		b, err := one(boxes)
		if err != nil {
			return err
		}
		boxes = []*deadletter.Queue{b}
	}
	found := false
	var failed []error
	for _, b := range boxes {
		of := numbers
		if len(numbers) == 0 {
			if err := d.chosen(ctx, b, func(l deadletter.Letter) { of = append(of, l.Letter) }); err != nil {
				return err
			}
		}
		if len(of) == 0 {
			continue
		}
		found = true
		if err := r.box(ctx, b, of); err != nil {
			failed = append(failed, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if !found {
		return none(r.out)
	}
	return errors.Join(failed...)
}

// box republishes letters of one stream.
func (r *retrying) box(ctx context.Context, b *deadletter.Queue, letters []uint64) error {
	r.published, r.already, r.left, r.first, r.last = 0, 0, 0, 0, 0
	retry := deadletter.Retry{DryRun: r.dryRun, Header: r.headers, OnOutcome: r.told}
	if r.edit != "" {
		retry.Edit = r.runEdit
	}
	err := retry.Do(ctx, b, letters)
	if _, failed := fmt.Fprintln(r.out, r.summary(b)); failed != nil {
		return failed
	}
	if r.published > 0 {
		r.warn(ctx, b)
	}
	if err == nil && r.left > 0 {
		err = fmt.Errorf("cannot publish %s of stream %s again: see the messages above",
			humanize.Things(int(r.left), "letter"), b.Name())
	}
	return err
}

func (r *retrying) told(o deadletter.Outcome) {
	switch {
	case o.Problem != nil:
		r.left++
		fmt.Fprintf(r.errs, "%s: %v\n", letterName(o.Letter), o.Problem)
	case o.AlreadyPublished:
		r.already++
	default:
		r.published++
		if o.Document > 0 {
			if r.first == 0 {
				r.first = o.Document
			}
			r.last = o.Document
		}
	}
}

// summary reports the results for the letters of one stream.
func (r *retrying) summary(b *deadletter.Queue) string {
	verb := "published again"
	if r.dryRun {
		verb = "would be published again"
	}
	text := fmt.Sprintf("%s of stream %s %s", humanize.Things(int(r.published), "letter"), b.Name(), verb)
	switch {
	case r.last > r.first:
		text += fmt.Sprintf(", as documents %d to %d of stream %s", r.first, r.last, b.Documents())
	case r.last > 0:
		text += fmt.Sprintf(", as document %d of stream %s", r.last, b.Documents())
	}
	if r.already > 0 {
		text += fmt.Sprintf("; %d already published", r.already)
	}
	if r.left > 0 {
		text += fmt.Sprintf("; %d failed", r.left)
	}
	return text
}

// warn names the runs that read none of the republished documents.
func (r *retrying) warn(ctx context.Context, b *deadletter.Queue) {
	readers, _ := retention.Readers(ctx, b.Store()) // advice only
	for _, x := range readers {
		if x.Sealed {
			fmt.Fprintf(r.errs, "run %s ends at document %d of stream %s: it reads none of these\n", x.Run, x.End,
				b.Documents())
		}
	}
}

// readHeaders parses NAME=VALUE, each name once.
func readHeaders(flags []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range flags {
		name, value, ok := strings.Cut(text, "=")
		_, twice := out[name]
		if !ok || twice || name == "" || strings.HasPrefix(strings.ToLower(name), "nats-") ||
			strings.ContainsFunc(name, notOfHeader) || strings.ContainsAny(value, "\r\n") {
			return nil, command.Usage(fmt.Errorf("--header %q: want NAME=VALUE, such as Content-Type=text/plain, each name "+
				"once and no header of the server (Nats-...)", text))
		}
		out[name] = value
	}
	return out, nil
}

func notOfHeader(r rune) bool { return r <= ' ' || r > '~' || r == ':' }

// maxEdited limits the output of an edit command, in bytes.
const maxEdited = 64 << 20

// runEdit runs the --edit command on a payload and returns its output.
func (r *retrying) runEdit(ctx context.Context, l deadletter.Letter) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", r.edit)
	cmd.Stdin = bytes.NewReader(l.Data)
	var out, said bounded
	out.left, said.left = maxEdited, 4<<10
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.Env = append(os.Environ(), "LOADERD_LETTER="+strconv.FormatUint(l.Letter, 10), "LOADERD_SOURCE="+l.Source,
		"LOADERD_REASON="+l.Reason,
		"LOADERD_PROBLEM="+clean(l.Problem), "LOADERD_SUBJECT="+clean(l.Subject),
		"LOADERD_SEQUENCE="+strconv.FormatUint(l.Sequence, 10))
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case out.more:
		return nil, fmt.Errorf("--edit wrote more than %d MiB", maxEdited>>20)
	case err != nil && said.kept.Len() > 0:
		return nil, fmt.Errorf("--edit: %w: %s", err, excerptOf(strings.TrimSpace(said.kept.String()), 300))
	case err != nil:
		return nil, fmt.Errorf("--edit: %w", err)
	}
	return out.kept.Bytes(), nil
}

// clean removes NUL bytes from untrusted text, which environment variables cannot contain.
func clean(text string) string { return strings.ReplaceAll(text, "\x00", "") }

// bounded keeps the first left bytes of what is written, and records in more whether it dropped any.
type bounded struct {
	kept bytes.Buffer // not embedded: its ReadFrom would bypass Write
	left int
	more bool
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	b.more = b.more || n < len(p)
	b.kept.Write(p[:n])
	return len(p), nil
}
