package ledger

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"loaderd/internal/api"
	"loaderd/loader/document"
)

// writeTable writes one line per row, followed by the pieces' texts or one line per document, as far as known.
func writeTable(w io.Writer, s Step) error {
	s.writeSummary(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "row\ttokens\tpieces")
	for i, row := range s.Rows {
		n := 0
		for _, p := range row {
			n += int(p.Length)
		}
		fmt.Fprintf(t, "%d\t%d\t", i, n)
		for _, p := range row {
			fmt.Fprint(t, p, " ")
		}
		fmt.Fprintln(t)
	}
	if s.hasText() {
		return errors.Join(t.Flush(), s.writeTexts(w))
	}
	if len(s.Documents) > 0 {
		documents := s.namedDocuments()
		head := "document\tsubject\tid\tpath"
		weighs := slices.ContainsFunc(documents, func(d namedDocument) bool { return d.Weight != nil })
		if weighs {
			head += "\tweight"
		}
		if slices.ContainsFunc(documents, func(d namedDocument) bool { return d.Meta != nil }) {
			head += "\tmeta"
		}
		fmt.Fprintf(t, "\n%s\n", head)
		for _, x := range documents {
			d := x.Info
			fmt.Fprintf(t, "%s\t%s\t%s\t%s", x.name, d.Subject, d.ID, d.Path)
			meta := metaJSON(d)
			if weighs && (d.Weight != nil || meta != "") {
				fmt.Fprintf(t, "\t%s", formatWeight(d))
			}
			if meta != "" {
				fmt.Fprintf(t, "\t%s", meta)
			}
			fmt.Fprintln(t)
		}
	}
	return t.Flush()
}

// formatWeight returns a document's weight, empty if unknown.
func formatWeight(d document.Info) string {
	if d.Weight == nil {
		return ""
	}
	return strconv.FormatFloat(float64(*d.Weight), 'g', -1, 32)
}

// writeSummary writes the counts of the whole step.
func (s Step) writeSummary(w io.Writer) {
	pieces, tokens := 0, 0
	documents := map[string]bool{}
	for _, row := range s.Rows {
		for _, p := range row {
			pieces++
			tokens += int(p.Length)
			documents[documentName(p.Piece)] = true
		}
	}
	slots, masked := len(s.Rows)*s.Bucket, ""
	if s.Masked > 0 {
		masked = fmt.Sprintf(", %d without a loss", s.Masked)
	}
	fmt.Fprintf(w, "run %s step %d: %d rows of %d tokens, %d pieces of %d documents, %d tokens, %d padding (%.3f "+
		"%%)%s; planned behind document %d\n\n",
		s.Run, s.Index, len(s.Rows), s.Bucket, pieces, len(documents), tokens, slots-tokens,
		100*float64(slots-tokens)/float64(max(slots, 1)), masked, s.Cursor)
}

func (s Step) hasText() bool {
	return slices.ContainsFunc(s.Rows, func(row []Piece) bool {
		return slices.ContainsFunc(row, func(p Piece) bool { return p.Text != nil })
	})
}

// writeTexts writes two lines per piece: its name and origin, and its text.
func (s Step) writeTexts(w io.Writer) error {
	from := s.origins()
	for i, row := range s.Rows {
		fmt.Fprintf(w, "\nrow %d\n", i)
		for _, p := range row {
			d := documentInfo(p.Piece, from[messageKey{p.Source, p.Sequence}])
			where := slices.DeleteFunc([]string{p.String(), d.Subject, d.ID, d.Path}, func(s string) bool { return s == "" })
			if n := len(where); n > 2 && where[n-1] == where[n-2] { // the path is also the id
				where = where[:n-1]
			}
			for _, x := range where {
				fmt.Fprint(w, "  ", x)
			}
			if p.Text != nil {
				fmt.Fprint(w, "\n    ", p.Text.abbreviate())
			}
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeFoundTable(w io.Writer, found []api.FoundRow) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "no step of the plan holds a document of that name")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "step\tbucket\trow\tpieces")
	for _, f := range found {
		var pieces []string
		for _, p := range f.Pieces {
			pieces = append(pieces, formatName(p))
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%s\n", f.Step, f.Bucket, f.Row, strings.Join(pieces, " "))
	}
	return t.Flush()
}
