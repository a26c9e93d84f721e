package publishcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
	"loaderd/internal/humanize"
	"loaderd/internal/publishing"
	"loaderd/loader/plan"
)

// writePublished writes a summary as text or as JSON.
func writePublished(w io.Writer, s publishing.Summary, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	}
	var b strings.Builder
	before := s.AlreadyStored + s.Duplicates
	if s.Documents == 0 && before > 0 {
		fmt.Fprintf(&b, "already published: %s; nothing new for %s", documentCount(before), s.Subject)
	} else {
		fmt.Fprintf(&b, "committed %s (%s) to %s in %.1f s", documentCount(s.Documents), humanize.Bytes(s.Bytes),
			s.Subject, s.Seconds)
	}
	if s.Seconds > 0 && s.Documents > 0 {
		fmt.Fprintf(&b, ", %.0f documents/s", float64(s.Documents)/s.Seconds)
	}
	if s.LastSequence > 0 {
		fmt.Fprintf(&b, "; last sequence of stream %s: %d", s.Stream, s.LastSequence)
	}
	fmt.Fprintf(&b, "\n%d of %d inputs complete", s.InputsComplete, s.Inputs)
	if s.Documents > 0 && before > 0 {
		fmt.Fprintf(&b, "; already published: %s", documentCount(before))
	}
	if s.WaitedSeconds > 0 {
		fmt.Fprintf(&b, "; waited %.1f s", s.WaitedSeconds)
	}
	b.WriteByte('\n')
	if line := skippedLine(s.Skipped); line != "" {
		fmt.Fprintf(&b, "skipped: %s\n", line)
	}
	for _, warning := range s.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	for _, problem := range s.Problems {
		fmt.Fprintf(&b, "not read to its end: %s\n", problem)
	}
	if s.NoText != nil {
		fmt.Fprintf(&b, "first without text: %v\n", s.NoText)
	}
	if s.Repeated != nil {
		fmt.Fprintln(&b, repeatsLine(s.Repeated))
	}
	if line := unreadLine(s.UnreadBy); line != "" {
		fmt.Fprintln(&b, line)
	}
	for _, r := range s.Runs {
		if line := intakeLine(r); line != "" {
			fmt.Fprintln(&b, line)
		}
	}
	if line := fillingLine(s.Runs); line != "" {
		fmt.Fprintln(&b, line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// intakeLine returns the summary's line about documents that a run skipped, and, if it skipped some, those that it
// has not read yet.
func intakeLine(r publishing.RunIntake) string {
	if r.Skipped.Total() == 0 {
		return ""
	}
	line := fmt.Sprintf("run %s read %s (of all producers) during this publish and skipped %d: %s",
		r.Run, documentCount(r.Read), r.Skipped.Total(), r.Skipped)
	if r.Unread > 0 {
		line += fmt.Sprintf("; not read yet: %s", documentCount(int64(r.Unread)))
	}
	return line
}

// fillingLine names the command that ends the wait of runs for their first steps, empty if no run waits for
// documents.
func fillingLine(runs []publishing.RunIntake) string {
	var names []string
	for _, r := range runs {
		if r.Filling {
			names = append(names, strconv.Quote(r.Run))
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(
			"run %s packs these after no new document has arrived for a while; if these were the last, run loaderd seal",
			names[0])
	}
	return fmt.Sprintf("runs %s pack these after no new document has arrived for a while; if these were the last, run "+
		"loaderd seal for each run",
		strings.Join(names, ", "))
}

// RejectedError is the error of a publish that committed its documents, some of which a run could not decode.
type RejectedError struct{ error }

// rejectedBy returns a RejectedError if a run could not decode documents.
func rejectedBy(runs []publishing.RunIntake) error {
	for _, r := range runs {
		if n := r.Skipped.Count(plan.SkipUndecodable); n > 0 {
			return RejectedError{fmt.Errorf(
				"run %s failed to decode %d of the %s (of all producers) that it read during this publish: see loaderd dlq list",
				r.Run, n, documentCount(r.Read))}
		}
	}
	return nil
}

// noDocuments returns the error of a publish that found no documents. noText is the error of the first file without
// the text field or column; it lists the fields or columns of that file.
func noDocuments(paths []string, noText error) error {
	err := errors.New("no documents in standard input")
	if paths[0] != "-" {
		err = fmt.Errorf("no documents in %s", strings.Join(paths, ", "))
	}
	if noText != nil {
		err = fmt.Errorf("%w: %w", err, noText)
	}
	return err
}

func documentCount(n int64) string {
	if n == 1 {
		return "1 document"
	}
	return fmt.Sprintf("%d documents", n)
}

// skippedMany contains the plurals of reasons that are nouns: "2 bad records", but "2 empty".
var skippedMany = map[string]string{string(record.Invalid): "bad records"}

// skippedLine lists the numbers of skipped documents by reason.
func skippedLine(skipped map[string]int64) string {
	var parts []string
	for reason, n := range skipped {
		if what, ok := skippedMany[reason]; ok && n != 1 {
			reason = what
		}
		parts = append(parts, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// repeatsLine returns the summary's line about documents that were published before, and their earlier input.
func repeatsLine(r *publishing.Repeats) string {
	as := ""
	switch {
	case r.Input != "":
		as = " as input " + r.Input
	case r.Path == "-":
		as = " from standard input"
	}
	return fmt.Sprintf("published before%s: %s, the first is document %d of the stream", as, documentCount(r.Documents),
		r.Sequence)
}

// repeatsWarning returns a warning about documents that the stream already contains, empty for none. A pipe of which
// only the first part was published before gives no warning: it was interrupted and is read again.
func repeatsWarning(r *publishing.Repeats) string {
	if r == nil || r.Path == "-" && !r.All {
		return ""
	}
	which := "some"
	if r.All {
		which = "all"
	}
	return fmt.Sprintf("%s of these documents were %s. The stream contains them once. To train on them once more, "+
		"publish them with another --source",
		which, repeatsLine(r))
}

// audienceWarning returns a warning about runs that do not read newly published documents, empty if all runs do.
func audienceWarning(a publishing.StreamRuns) string {
	if len(a.Sealed) == 0 {
		return ""
	}
	var b strings.Builder
	for i, r := range a.Sealed {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "run %s is sealed at document %d", r.Run, r.End)
	}
	b.WriteString(": documents published later are not part of it")
	if len(a.Active) > 0 {
		fmt.Fprintf(&b, "; read by %s", strings.Join(a.Active, ", "))
		return b.String()
	}
	b.WriteString(", and no other run reads this stream. A new run (loaderd serve --run NAME) reads it from its first " +
		"document on, " +
		"or from the one that the start of its source names")
	return b.String()
}

// unreadLine returns the summary's line about sealed runs that do not read the documents.
func unreadLine(runs []publishing.SealedRun) string {
	var parts []string
	for _, r := range runs {
		parts = append(parts, fmt.Sprintf("run %s, which ends at document %d", r.Run, r.End))
	}
	if len(parts) == 0 {
		return ""
	}
	return "not read by " + strings.Join(parts, ", nor by ")
}

// metaWarning returns a warning if no published document had any of the values of --meta, otherwise an empty text.
func metaWarning(s publishing.Summary, meta []record.Meta) string {
	if len(meta) == 0 || s.Documents == 0 || s.HasMeta() {
		return ""
	}
	columns := make([]string, len(meta))
	for i, m := range meta {
		columns[i] = strconv.Quote(m.Column)
	}
	return "no document has a field or column of --meta: " + strings.Join(columns, ", ")
}

// replacedLine returns the number of bytes that were not UTF-8, empty for none.
func replacedLine(r corpus.Replacements) string {
	if r.Documents == 0 {
		return ""
	}
	return fmt.Sprintf("%s of %s: not UTF-8, U+FFFD in their place; the first in %s (--encoding names another encoding)",
		humanize.Things(int(r.Bytes), "byte"), documentCount(r.Documents), r.First)
}
