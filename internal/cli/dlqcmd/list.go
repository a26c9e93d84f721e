package dlqcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/humanize"
	"loaderd/internal/table"
	"loaderd/stream/deadletter"
)

func newDLQListCmd() *cobra.Command {
	var letters deadLetters
	var most int
	var asJSON, noHeaders bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters and their reasons",
		Long: `List dead letters: messages of the document stream that could not be decoded. A
letter has a number in its dead-letter stream, a reason, and the sequence of its
document. In a run with several sources, each source has its own dead-letter
stream. A full stream drops its oldest letters (stream.dead_letter_bytes). The
list shows the newest letters, and the count covers all selected ones. Nothing
is changed. Daemons may write letters meanwhile.`,
		Example: `  loaderd dlq list --daemon /data/loaderd
  loaderd dlq list -c loaderd.yaml --source math --reason INVALID_JSON \
      --since 24h --json`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most < 0 {
				return command.Usage(fmt.Errorf("-n %d: want 0 (all) or more", most))
			}
			return letters.with(cmd, func(ctx context.Context, boxes []*deadletter.Queue) error {
				l, err := letters.list(ctx, boxes, most)
				if err != nil {
					return err
				}
				if asJSON {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(l)
				}
				return l.write(cmd.OutOrStdout(), noHeaders)
			})
		},
	}
	letters.register(cmd)
	letters.registerChoice(cmd)
	cmd.Flags().IntVarP(&most, "number", "n", 50, "`number` of newest letters to list; 0: all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	command.RegisterNoHeaders(cmd, &noHeaders)
	return cmd
}

// deadList is a list of letters with counts.
type deadList struct {
	Total   int64            `json:"total"`
	Reasons map[string]int64 `json:"reasons"`
	Letters []listedLetter   `json:"letters"` // the newest, oldest first
}

type listedLetter struct {
	Letter    uint64    `json:"letter"`
	Source    string    `json:"source,omitempty"`
	Reason    string    `json:"reason"`
	Problem   string    `json:"problem"`
	Sequence  uint64    `json:"sequence"`
	Subject   string    `json:"subject"`
	Time      time.Time `json:"time"`
	Truncated []string  `json:"truncated,omitempty"`
	Retried   bool      `json:"retried,omitempty"` // republished
}

// list reads the list of letters. With several sources it keeps the newest letters across all of them.
func (d *deadLetters) list(ctx context.Context, boxes []*deadletter.Queue, most int) (deadList, error) {
	out := deadList{Reasons: map[string]int64{}, Letters: []listedLetter{}}
	for _, b := range boxes {
		var of []listedLetter
		err := d.chosen(ctx, b, func(l deadletter.Letter) {
			out.Total++
			out.Reasons[l.Reason]++
			if most > 0 && len(of) == 2*most {
				of = append(of[:0], of[most:]...)
			}
			of = append(of, listedLetter{Letter: l.Letter, Source: l.Source, Reason: l.Reason, Problem: l.Problem,
				Sequence: l.Sequence, Subject: l.Subject,
				Time: l.Time, Truncated: l.Truncated})
		})
		if err != nil {
			return out, err
		}
		if most > 0 {
			of = of[max(len(of)-most, 0):]
		}
		numbers := make([]uint64, len(of))
		for i, l := range of {
			numbers[i] = l.Letter
		}
		retried, err := b.RetriedLetters(ctx, numbers)
		if err != nil {
			return out, err
		}
		for i := range of {
			of[i].Retried = retried[of[i].Letter]
		}
		out.Letters = append(out.Letters, of...)
	}
	slices.SortStableFunc(out.Letters, func(a, b listedLetter) int { return a.Time.Compare(b.Time) })
	if most > 0 {
		out.Letters = out.Letters[max(len(out.Letters)-most, 0):]
	}
	return out, nil
}

func (l deadList) write(w io.Writer, noHeaders bool) error {
	if l.Total == 0 {
		return none(w)
	}
	named := slices.ContainsFunc(l.Letters, func(x listedLetter) bool { return x.Source != "" })
	head := []string{"LETTER", "SOURCE", "REASON", "DOCUMENT", "SUBJECT", "TIME (UTC)", "RETRIED", "PROBLEM"}
	columns := func(cells []string) []string {
		if !named {
			cells = slices.Delete(cells, 1, 2)
		}
		return cells
	}
	t := table.New(columns(head)...)
	t.NoHeader = noHeaders
	for _, x := range l.Letters {
		retried := "-"
		if x.Retried {
			retried = "yes"
		}
		t.Row(columns([]string{strconv.FormatUint(x.Letter, 10), cmp.Or(x.Source, "-"), x.Reason,
			strconv.FormatUint(x.Sequence, 10), command.Visible(x.Subject, false),
			x.Time.UTC().Format("2006-01-02 15:04:05"), retried, excerptOf(x.Problem, 100)})...)
	}
	if err := t.Write(w); err != nil {
		return err
	}
	left := ""
	if n := l.Total - int64(len(l.Letters)); n > 0 {
		left = fmt.Sprintf("; the newest %s are listed (-n 0 lists all)", humanize.Count(len(l.Letters)))
	}
	_, err := fmt.Fprintf(w, "%s: %s%s\n", humanize.Things(int(l.Total), "letter"), byReason(l.Reasons), left)
	return err
}

// byReason lists the number of letters per reason, highest first.
func byReason(reasons map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		if reasons[a] != reasons[b] {
			return int(min(max(reasons[b]-reasons[a], -1), 1))
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = name + " " + humanize.Count(reasons[name])
	}
	return strings.Join(names, ", ")
}

// excerptOf returns the beginning of untrusted text, on one line.
func excerptOf(text string, most int) string {
	runes := []rune(text)
	if len(runes) > most {
		return command.Visible(string(runes[:most]), false) + "..."
	}
	return command.Visible(text, false)
}
