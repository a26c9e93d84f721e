package dlqcmd

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"loaderd/stream/deadletter"
)

func newDLQExportCmd() *cobra.Command {
	var letters deadLetters
	cmd := &cobra.Command{
		Use:   "export [LETTER...]",
		Short: "Export dead letters as JSON lines",
		Long: `Export dead letters as JSON lines to standard output, oldest first. The command
exports all letters that the flags select, or the letters with the given numbers
(7, or 7-12). A line has the letter, source, reason, problem, the document's
stream, sequence and subject, the time, the headers and the payload. The payload
is text, or base64 if it is not UTF-8. "truncated" names the parts that exceeded
the size of a letter.`,
		Example: `  loaderd dlq export --daemon /data/loaderd > dead.jsonl
  loaderd dlq export --reason INVALID_JSON -c loaderd.yaml | jq -r .text`,
		RunE: func(cmd *cobra.Command, args []string) error {
			numbers, err := letterNumbers(args)
			if err != nil {
				return err
			}
			return letters.with(cmd, func(ctx context.Context, boxes []*deadletter.Queue) (err error) {
				out := bufio.NewWriter(cmd.OutOrStdout())
				defer func() { err = errors.Join(err, out.Flush()) }()
				encoder := newLetterEncoder(out)
				return letters.whole(ctx, boxes, numbers, func(l deadletter.Letter) error {
					return encoder.Encode(newLetterJSON(l, false))
				})
			})
		},
	}
	letters.register(cmd)
	letters.registerChoice(cmd)
	return cmd
}

// whole calls f with the selected letters and their payloads: those with the given numbers, or all.
func (d *deadLetters) whole(ctx context.Context, boxes []*deadletter.Queue, numbers []uint64,
	f func(deadletter.Letter) error) error {
	if len(numbers) > 0 {
		b, err := one(boxes)
		if err != nil {
			return err
		}
		boxes = []*deadletter.Queue{b}
	}
	for _, b := range boxes {
		asked := len(numbers) > 0
		of := numbers
		if !asked {
			if err := d.chosen(ctx, b, func(l deadletter.Letter) { of = append(of, l.Letter) }); err != nil {
				return err
			}
		}
		for _, n := range of {
			l, err := b.Get(ctx, n)
			if errors.Is(err, deadletter.ErrLetterNotFound) && !asked {
				continue // discarded since for a newer letter
			}
			if err == nil {
				err = f(l)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// letterJSON is a letter with its headers and payload as JSON.
type letterJSON struct {
	Letter    uint64      `json:"letter"`
	Source    string      `json:"source,omitempty"`
	Reason    string      `json:"reason"`
	Problem   string      `json:"problem"`
	Stream    string      `json:"stream"`
	Sequence  uint64      `json:"sequence"`
	Subject   string      `json:"subject"`
	Time      time.Time   `json:"time"`
	Truncated []string    `json:"truncated,omitempty"`
	Headers   nats.Header `json:"headers,omitempty"`
	Text      *string     `json:"text,omitempty"`
	Base64    *string     `json:"base64,omitempty"`
	Retried   bool        `json:"retried,omitempty"` // republished; not exported
}

// newLetterEncoder returns an encoder that leaves the characters of payloads as they are.
func newLetterEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

func newLetterJSON(l deadletter.Letter, retried bool) letterJSON {
	x := letterJSON{Letter: l.Letter, Source: l.Source, Reason: l.Reason, Problem: l.Problem, Stream: l.Stream,
		Sequence: l.Sequence, Subject: l.Subject,
		Time: l.Time, Truncated: l.Truncated, Headers: l.Header, Retried: retried}
	if text := string(l.Data); utf8.ValidString(text) {
		x.Text = &text
	} else {
		encoded := base64.StdEncoding.EncodeToString(l.Data)
		x.Base64 = &encoded
	}
	return x
}
