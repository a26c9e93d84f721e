package dlqcmd

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/humanize"
	"loaderd/stream/deadletter"
)

func newDLQShowCmd() *cobra.Command {
	var letters deadLetters
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "show LETTER",
		Short: "Show a dead letter with its headers and payload",
		Long: `Show the dead letter with a number from loaderd dlq list: its reason, its
document, the headers of that document, and its payload. A UTF-8 payload is
shown as text, with invisible characters written as \t or \x1b. Another payload
is shown as hexadecimal digits. loaderd dlq export writes the payload
unchanged.`,
		Example: `  loaderd dlq show 17 --daemon /data/loaderd
  loaderd dlq show 3 --source math -c loaderd.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			numbers, err := letterNumbers(args)
			if err != nil {
				return err
			}
			return letters.with(cmd, func(ctx context.Context, boxes []*deadletter.Queue) error {
				b, err := one(boxes)
				if err != nil {
					return err
				}
				l, err := b.Get(ctx, numbers[0])
				if err != nil {
					return err
				}
				retried, err := b.RetriedLetters(ctx, numbers[:1])
				if err != nil {
					return err
				}
				if asJSON {
					return newLetterEncoder(cmd.OutOrStdout()).Encode(newLetterJSON(l, retried[l.Letter]))
				}
				return writeLetter(cmd.OutOrStdout(), l, retried[l.Letter], all)
			})
		},
	}
	letters.register(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "show the complete payload, not only its beginning")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the complete letter as one JSON object, as loaderd dlq export does")
	return cmd
}

// Limits of the displayed part of a payload.
const (
	shownText = 4 << 10
	shownHex  = 512
)

// writeLetter shows a letter.
func writeLetter(w io.Writer, l deadletter.Letter, retried, all bool) error {
	state := ""
	if retried {
		state = " (published again)"
	}
	fmt.Fprintf(w, "%s%s\n", letterName(l), state)
	for _, x := range [][2]string{
		{"reason", l.Reason}, {"problem", l.Problem}, {"document", fmt.Sprintf("%d of stream %s", l.Sequence, l.Stream)},
		{"subject", l.Subject},
		{"stored", l.Time.UTC().Format(time.RFC3339)}, {"truncated", strings.Join(l.Truncated, ", ")},
	} {
		if x[1] != "" {
			fmt.Fprintf(w, "  %-9s %s\n", x[0], command.Visible(x[1], false))
		}
	}
	if len(l.Header) > 0 {
		fmt.Fprintln(w, "headers")
	}
	for _, name := range slices.Sorted(maps.Keys(l.Header)) {
		for _, value := range l.Header[name] {
			fmt.Fprintf(w, "  %s: %s\n", command.Visible(name, false), command.Visible(value, false))
		}
	}
	_, err := fmt.Fprintf(w, "payload, %s\n%s", humanize.Bytes(int64(len(l.Data))), payload(l.Data, all))
	return err
}

// payload formats a payload for a terminal.
func payload(data []byte, all bool) string {
	text, most := utf8.Valid(data), shownText
	if !text {
		most = shownHex
	}
	left := 0
	if len(data) > most && !all {
		if text {
			for !utf8.RuneStart(data[most]) {
				most--
			}
		}
		left, data = len(data)-most, data[:most]
	}
	shown := hex.Dump(data)
	if text {
		shown = command.Visible(string(data), true)
		if shown != "" && !strings.HasSuffix(shown, "\n") {
			shown += "\n"
		}
	}
	if left > 0 {
		shown += fmt.Sprintf("... %s more (--all)\n", humanize.Bytes(int64(left)))
	}
	return shown
}
