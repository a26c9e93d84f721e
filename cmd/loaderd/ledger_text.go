package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/reader"
	"loaderd/loader"
	"loaderd/tokenizer"
)

// textShown is how many characters of a piece's text the table shows: its beginning and its end.
const textShown = 120

// fillText gives every piece of a step its text: the tokens as a rank reads them, decoded.
func (a ledgerAsked) fillText(ctx context.Context, client *flightClient, whole *ledgerStep) error {
	options, err := client.options()
	if err != nil {
		return err
	}
	c, err := reader.Open(client.uri, options)
	if err != nil {
		return usageError{fmt.Errorf("--flight: %w", err)}
	}
	defer c.Close()
	var info loader.Info
	if err := c.Do(ctx, "info", map[string]any{"run": whole.Run}, &info); err != nil {
		return fmt.Errorf("ask for the run's tokenizer: %w", err)
	}
	model, err := tokenizerOf(info.Config.Tokenizer, a.tokenizer, a.options)
	if err != nil {
		return err
	}
	row := 0
	ticket := reader.Ticket{Run: whole.Run, Step: whole.Step, Steps: 1, Columns: []string{"input_ids", "documents"}}
	return c.Read(ctx, ticket, func(b reader.Batch) error {
		for i, pieces := range b.Documents {
			ids := b.InputIDs[i*b.L:]
			for k, p := range pieces {
				if row+i >= len(whole.Rows) || k >= len(whole.Rows[row+i]) {
					return fmt.Errorf("step %d: row %d holds more than the ledger names", whole.Step, row+i)
				}
				decode := model.DecodePart
				if p.Start == 0 {
					decode = model.Decode
				}
				text, err := decode(nil, ids[:p.Length])
				if err != nil {
					return fmt.Errorf("step %d row %d: %w", whole.Step, row+i, err)
				}
				whole.Rows[row+i][k].Text = &pieceText{text}
				ids = ids[p.Length:]
			}
		}
		row += len(b.Documents)
		return nil
	})
}

// tokenizerOf loads the tokenizer of a run, or the named one if it is the same.
func tokenizerOf(t loader.Tokenizer, name string, o tokenizer.Options) (*tokenizer.Model, error) {
	if name = cmp.Or(name, t.Name); name == config.TokenizerNone {
		return nil, usageError{errors.New("the run's documents arrive tokenized: name their tokenizer with --tokenizer")}
	}
	found := ""
	for _, add := range []bool{false, true} {
		for _, asText := range []bool{t.SpecialAsText, !t.SpecialAsText} {
			o.SpecialAsText, o.AddSpecialTokens = asText, add
			m, err := daemon.Model(name, o)
			if err != nil {
				if found != "" {
					continue // its post_processor is not known
				}
				return nil, fmt.Errorf("%w (name the run's tokenizer with --tokenizer)", err)
			}
			if m.Fingerprint() == t.Fingerprint {
				return m, nil
			}
			found = cmp.Or(found, m.Fingerprint())
		}
	}
	return nil, fmt.Errorf("tokenizer %s has fingerprint %s, the run's has %s: name that one with --tokenizer", name, found, t.Fingerprint)
}

// pieceText is the text of a piece: in JSON a string, or {"base64"} where a character is cut.
type pieceText struct{ text []byte }

// MarshalJSON writes the text.
func (p *pieceText) MarshalJSON() ([]byte, error) {
	if utf8.Valid(p.text) {
		return json.Marshal(string(p.text))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(p.text)})
}

// UnmarshalJSON refuses: texts come from tokens.
func (p *pieceText) UnmarshalJSON([]byte) error { return errors.New("a piece's text is not read") }

// shown is the text on one line, without its middle where it is long.
func (p *pieceText) shown() string {
	runes := bytes.Runes(bytes.ToValidUTF8(p.text, []byte("\ufffd"))) // a cut character becomes U+FFFD
	if len(runes) <= textShown {
		return strconv.Quote(string(runes))
	}
	head, tail := runes[:textShown*3/4], runes[len(runes)-textShown/4:]
	return fmt.Sprintf("%q ... %d more ... %q", string(head), len(runes)-textShown, string(tail))
}

// texts writes a line a piece: what it is, where it came from, and its text.
func (s ledgerStep) texts(w io.Writer) error {
	from := map[uint64]loader.DocumentInfo{}
	for _, d := range s.Documents {
		from[d.Sequence] = d
	}
	for i, row := range s.Rows {
		fmt.Fprintf(w, "\nrow %d\n", i)
		for _, p := range row {
			d := from[p.Sequence]
			where := slices.DeleteFunc([]string{p.String(), d.Subject, d.ID, d.Path}, func(s string) bool { return s == "" })
			if n := len(where); n > 2 && where[n-1] == where[n-2] { // the path as id
				where = where[:n-1]
			}
			for _, x := range where {
				fmt.Fprint(w, "  ", x)
			}
			if p.Text != nil {
				fmt.Fprint(w, "\n    ", p.Text.shown())
			}
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s ledgerStep) hasText() bool {
	return slices.ContainsFunc(s.Rows, func(row []ledgerPiece) bool {
		return slices.ContainsFunc(row, func(p ledgerPiece) bool { return p.Text != nil })
	})
}
