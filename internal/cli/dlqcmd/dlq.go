// Package dlqcmd implements the command dlq, which lists, shows, exports and republishes dead letters.
package dlqcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/stream"
	"loaderd/stream/deadletter"
)

// NewDLQCmd returns the command dlq.
func NewDLQCmd() *cobra.Command {
	return command.Group("dlq", "Inspect dead letters and publish them again",
		`  loaderd dlq list --daemon /data/loaderd
  loaderd dlq retry --reason INVALID_JSON --edit 'jq -c .'`,
		newDLQListCmd(), newDLQShowCmd(), newDLQExportCmd(), newDLQRetryCmd())
}

// deadLetters are the flags that locate and select dead letters.
type deadLetters struct {
	command.ConfigFlags
	source  string
	reasons []string
	since   time.Duration
}

func (d *deadLetters) register(cmd *cobra.Command) {
	d.RegisterStore(cmd)
	cmd.Flags().StringVar(&d.source, "source", "", "only letters of the source with this `name`, if the run has several")
}

// registerChoice adds the flags that select letters.
func (d *deadLetters) registerChoice(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&d.reasons, "reason", nil, "only letters with this `reason`, such as INVALID_JSON; may be repeated")
	f.DurationVar(&d.since, "since", 0, "only letters that are not older than this, such as 90m or 24h")
}

// with calls f with the selected dead-letter streams.
func (d *deadLetters) with(cmd *cobra.Command,
	f func(ctx context.Context, boxes []*deadletter.Queue) error) (err error) {
	c, err := d.Load(cmd)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	store, err := command.OpenRunStore(ctx, c, command.NewLogger(c.Log, cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	boxes, err := d.boxes(ctx, store)
	if err != nil {
		return err
	}
	return f(ctx, boxes)
}

func (d *deadLetters) boxes(ctx context.Context, store *stream.Store) ([]*deadletter.Queue, error) {
	boxes, err := deadletter.ListQueues(ctx, store)
	if err != nil || d.source == "" {
		return boxes, err
	}
	i := slices.IndexFunc(boxes, func(b *deadletter.Queue) bool { return b.Source == d.source })
	if i < 0 {
		return nil, fmt.Errorf("source %s has no dead letters; %s", d.source, sourcesOf(boxes))
	}
	return boxes[i : i+1], nil
}

func sourcesOf(boxes []*deadletter.Queue) string {
	var names []string
	for _, b := range boxes {
		if b.Source != "" {
			names = append(names, b.Source)
		}
	}
	if len(names) == 0 {
		return "no source has letters"
	}
	return "sources with letters: " + strings.Join(names, ", ")
}

// one returns the only dead-letter stream. Letter numbers are ambiguous if several exist.
func one(boxes []*deadletter.Queue) (*deadletter.Queue, error) {
	switch len(boxes) {
	case 0:
		return nil, errors.New("no dead letters")
	case 1:
		return boxes[0], nil
	}
	return nil, command.Usage(fmt.Errorf("several sources have dead letters: name one with --source (%s)",
		sourcesOf(boxes)))
}

// letterNumbers parses letter numbers: 7, or 7-12.
func letterNumbers(args []string) (letters []uint64, err error) {
	const most = 1 << 20
	for _, arg := range args {
		first, last, several := strings.Cut(arg, "-")
		a, err := strconv.ParseUint(first, 10, 64)
		b := a
		if err == nil && several {
			b, err = strconv.ParseUint(last, 10, 64)
		}
		if err != nil || a == 0 || b < a || b-a >= most {
			return nil, command.Usage(fmt.Errorf(
				"letter %q: want a number from loaderd dlq list, or a range such as 7-12", arg))
		}
		for n := a; n <= b; n++ {
			letters = append(letters, n)
		}
	}
	return letters, nil
}

// chosen calls f with the selected letters, oldest first.
func (d *deadLetters) chosen(ctx context.Context, b *deadletter.Queue, f func(deadletter.Letter)) error {
	oldest := time.Time{}
	if d.since > 0 {
		oldest = time.Now().Add(-d.since)
	}
	return b.Each(ctx, func(l deadletter.Letter) bool {
		if !l.Time.Before(oldest) && (len(d.reasons) == 0 || slices.Contains(d.reasons, l.Reason)) {
			f(l)
		}
		return true
	})
}

// letterName returns a letter's name for messages, with the source if it has one.
func letterName(l deadletter.Letter) string {
	if l.Source == "" {
		return "letter " + strconv.FormatUint(l.Letter, 10)
	}
	return fmt.Sprintf("letter %d of source %s", l.Letter, l.Source)
}

// none reports that no letter was selected.
func none(w io.Writer) error {
	_, err := fmt.Fprintln(w, "no matching dead letters")
	return err
}
