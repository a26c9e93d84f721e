package ledger

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"loaderd/internal/api"
	"loaderd/internal/humanize"
	"loaderd/internal/table"
	"loaderd/loader/document"
)

// writeTable writes one line per row, followed by the pieces' texts or one line per document, as far as known.
func writeTable(w io.Writer, s Step) error {
	s.writeSummary(w)
	rows := table.New("ROW", "TOKENS", "PIECES")
	for i, row := range s.Rows {
		n := 0
		var pieces []string
		for _, p := range row {
			n += int(p.Length)
			pieces = append(pieces, p.String())
		}
		rows.Row(humanize.Count(i), humanize.Count(n), strings.Join(pieces, " "))
	}
	if err := rows.Write(w); err != nil {
		return err
	}
	if s.hasText() {
		return s.writeTexts(w)
	}
	if len(s.Documents) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return s.documentTable().Write(w)
}

// documentTable returns a table of the documents, with columns for weights and metadata if there are any.
func (s Step) documentTable() *table.Table {
	documents := s.namedDocuments()
	columns := []string{"DOCUMENT", "SUBJECT", "ID", "PATH"}
	hasWeight := slices.ContainsFunc(documents, func(d namedDocument) bool { return d.Weight != nil })
	if hasWeight {
		columns = append(columns, "WEIGHT")
	}
	hasMeta := slices.ContainsFunc(documents, func(d namedDocument) bool { return d.Meta != nil })
	if hasMeta {
		columns = append(columns, "META")
	}
	t := table.New(columns...)
	for _, x := range documents {
		d := x.Info
		cells := []string{x.name, d.Subject, d.ID, d.Path}
		if hasWeight {
			cells = append(cells, formatWeight(d))
		}
		if hasMeta {
			cells = append(cells, metaJSON(d))
		}
		t.Row(cells...)
	}
	return t
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
	worlds := ""
	for _, job := range slices.Sorted(maps.Keys(s.WorldSizes)) {
		worlds += fmt.Sprintf("; %d ranks of job %s from step %d", s.WorldSizes[job].Ranks, job, s.WorldSizes[job].Step)
	}
	fmt.Fprintf(w, "run %s step %d: %d rows of %d tokens, %d pieces of %d documents, %d tokens, %d padding (%.3f "+
		"%%)%s; planned behind document %d%s\n\n",
		s.Run, s.Index, len(s.Rows), s.Bucket, pieces, len(documents), tokens, slots-tokens,
		100*float64(slots-tokens)/float64(max(slots, 1)), masked, s.Cursor, worlds)
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
	t := table.New("STEP", "BUCKET", "ROW", "PIECES")
	for _, f := range found {
		var pieces []string
		for _, p := range f.Pieces {
			pieces = append(pieces, formatName(p))
		}
		t.Row(humanize.Count(f.Step), humanize.Count(f.Bucket), humanize.Count(f.Row), strings.Join(pieces, " "))
	}
	return t.Write(w)
}
