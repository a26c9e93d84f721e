package runcmd

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"loaderd/internal/api"
	"loaderd/internal/cli/command"
	"loaderd/internal/flightclient"
	"loaderd/internal/humanize"
)

// NewPeekCmd returns the command peek.
func NewPeekCmd() *cobra.Command {
	var client command.FlightClient
	var source string
	var documents, tokens int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "peek",
		Short: "Show the next documents of a run with token boundaries",
		Long: `Show the next documents that a run takes, in that order, with their origin and
their text. The text has token boundaries: on a terminal every second token has
another background, elsewhere a | separates tokens. Bytes that are not UTF-8 are
written as \xE4, and a tab or another invisible character as \t. For a document
that is not used, the reason is shown.

Without --source the command shows the next documents of the only source, or the
next document of each of several sources. Nothing is changed.`,
		Example: `  loaderd peek
  loaderd peek --source math -n 5
  loaderd peek --source math --json | jq -r .path`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if documents < 1 || documents > 16 {
				return command.Usage(fmt.Errorf("-n %d: want 1 to 16 documents", documents))
			}
			if tokens < 1 || tokens > 4096 {
				return command.Usage(fmt.Errorf("--tokens %d: want 1 to 4096", tokens))
			}
			var texts []api.DocumentText
			err := client.Ask(cmd.Context(), "peek", func(c *flightclient.Client) (err error) {
				texts, err = c.Peek(cmd.Context(), client.Run, source, documents, tokens)
				return err
			})
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if asJSON {
				encoder := json.NewEncoder(out)
				for _, t := range texts {
					if err := encoder.Encode(t); err != nil {
						return err
					}
				}
				return nil
			}
			border := plainBorders
			if command.Terminal(out) != nil && os.Getenv("NO_COLOR") == "" {
				border = colouredBorders
			}
			return writeTexts(out, texts, border)
		},
	}
	client.Register(cmd)
	f := cmd.Flags()
	f.StringVar(&source, "source", "", "`name` of the source, if the run has several")
	f.IntVarP(&documents, "documents", "n", 3, "`number` of documents of the source: 1 to 16")
	f.IntVar(&tokens, "tokens", 256, "`number` of tokens of each document: 1 to 4096")
	f.BoolVar(&asJSON, "json", false, "print one JSON object per document")
	return cmd
}

// writeTexts writes documents one below the other.
func writeTexts(w io.Writer, texts []api.DocumentText, borders func(tokens []string) string) error {
	if len(texts) == 0 {
		_, err := fmt.Fprintln(w, "no next document: all stored documents are planned")
		return err
	}
	for i, t := range texts {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if _, err := fmt.Fprintln(w, strings.Join(textHead(t), "  ")); err != nil {
			return err
		}
		if t.Problem != "" {
			fmt.Fprintln(w, "  "+command.Visible(t.Problem, false))
		}
		if len(t.Tokens) == 0 {
			continue
		}
		shown := make([]string, len(t.Tokens))
		for k, id := range t.Tokens {
			if t.Texts == nil {
				shown[k] = strconv.Itoa(int(id))
			} else {
				shown[k] = command.Visible(t.Texts[k], true)
			}
		}
		fmt.Fprintln(w, borders(shown))
		if left := t.Total - t.Start - len(t.Tokens); left > 0 {
			fmt.Fprintf(w, "... %s more tokens\n", humanize.Count(left))
		}
	}
	return nil
}

// textHead returns the heading lines of a document: its position and its origin.
func textHead(t api.DocumentText) []string {
	name := "document " + strconv.FormatUint(t.Sequence, 10)
	if t.Source != "" {
		name += " of " + t.Source
	}
	head := []string{name}
	for _, part := range []string{t.Subject, t.Path, t.ID} {
		if part != "" && (part != t.ID || t.ID != t.Path) {
			head = append(head, command.Visible(part, false))
		}
	}
	head = append(head, humanize.Bytes(int64(t.Bytes)), humanize.Count(t.Total)+" tokens")
	if t.Skip != "" {
		head = append(head, "not used: "+t.Skip)
	}
	return head
}

// plainBorders separates tokens by a |.
func plainBorders(tokens []string) string { return strings.Join(tokens, "|") }

// colouredBorders gives every second token a coloured background. Each line ends without a background, which would
// otherwise fill the rest of the line.
func colouredBorders(tokens []string) string {
	const on, off = "\x1b[48;5;24m\x1b[38;5;231m", "\x1b[0m"
	var b strings.Builder
	for i, t := range tokens {
		if i%2 == 1 {
			t = on + strings.ReplaceAll(t, "\n", off+"\n"+on) + off
		}
		b.WriteString(t)
	}
	return b.String()
}
