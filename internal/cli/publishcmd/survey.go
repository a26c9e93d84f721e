package publishcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
	"loaderd/internal/humanize"
	"loaderd/internal/inspect"
	"loaderd/internal/publishing"
)

// Reasons for which a publish fails unless a flag skips such documents.
const (
	badRecord = string(record.Invalid)
	tooLarge  = string(record.TooLarge)
)

// survey implements --dry-run. It fails if a publish of the same inputs would fail.
func (f *publishFlags) survey(ctx context.Context, paths []string, stdin io.Reader, stdout, stderr io.Writer) error {
	f.corpus.Inspect = true
	f.corpus.MaxDocument = int64(f.config.MaxDocument)
	inputs, err := corpus.Open(ctx, paths, stdin, f.corpus)
	if err != nil {
		return err
	}
	shown := newPublishReport(ctx, stderr, inputs)
	began := shown.start(func() publishing.Progress {
		var now publishing.Progress
		for _, in := range inputs {
			now.Read, now.Total = now.Read+in.BytesRead(), now.Total+in.Bytes
		}
		return now
	})
	report := inspect.Summarize(ctx, inputs, func(d record.Document) error {
		return publishing.CheckSize(d, f.options, f.corpus.MaxDocument)
	})
	began()
	report.Tokenizer = f.options.Fingerprint
	if f.json {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(report)
	} else {
		_, err = io.WriteString(stdout, f.surveyText(report))
	}
	switch {
	case err != nil:
		return err
	case !report.Complete:
		return errors.New("interrupted before everything was read")
	case len(report.Problems) > 0:
		return errors.New("cannot publish the input: fix the reported problems")
	case report.LeftOut[badRecord].Count > 0 && !f.options.SkipInvalid:
		return errors.New("cannot publish the input: it has bad records (--skip-invalid skips them)")
	case report.LeftOut[tooLarge].Count > 0 && !f.options.SkipTooLarge:
		return errors.New("cannot publish the input: it has documents that are too large (--skip-too-large skips them)")
	case report.Documents+report.LeftOut[badRecord].Count+report.LeftOut[tooLarge].Count == 0:
		return noDocuments(paths, nil)
	case report.TokenIDs && report.Tokenizer == "":
		return errors.New("the input has token ids: publish it with --tokenizer (a name or file) or --tokenizer-fingerprint")
	}
	return nil
}

// surveyText formats the result of the dry run.
func (f *publishFlags) surveyText(r inspect.Report) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	for _, found := range r.Formats {
		line("format", "%s: %s, %s", found.Name, humanize.Things(found.Files, "file"), humanize.Bytes(found.Bytes))
		if len(found.Fields) > 0 {
			line("  fields", "%s", fieldsText(found.Fields))
		}
	}
	for _, part := range slices.Sorted(maps.Keys(r.Parts)) {
		line("part", "%s: %s", part, documentCount(r.Parts[part]))
	}
	unit := "bytes"
	if r.TokenIDs {
		unit = "tokens"
		line("documents", "%s of %s tokens", humanize.Count(r.Documents), humanize.Count(r.Tokens))
	} else {
		line("documents", "%s of text, %s", humanize.Count(r.Documents), humanize.Bytes(r.Bytes))
	}
	if l := r.Lengths; r.Documents > 0 {
		line("lengths", "%s: shortest %d, 10 %% to %d, half to %d, 90 %% to %d, 99 %% to %d, longest %d", unit, l.Shortest,
			l.P10, l.Median, l.P90, l.P99, l.Longest)
	}
	if r.TokenIDs {
		f.tokenizerText(line, r)
	}
	if r.First != nil {
		line("first", "%s", strings.TrimSuffix(r.First.Path+" "+r.First.ID, " "))
		line("", "%s", f.firstText(r.First))
	}
	if replaced := replacedLine(r.Replaced); replaced != "" {
		line("replaced", "%s", replaced)
	}
	for _, reason := range slices.Sorted(maps.Keys(r.LeftOut)) {
		left := r.LeftOut[reason]
		line("skipped", "%s %s, the first: %s", humanize.Count(left.Count), reason, left.First)
	}
	for _, problem := range r.Problems {
		line("problem", "%s", problem)
	}
	return b.String()
}

func fieldsText(fields []record.Field) string {
	var parts []string
	for _, field := range fields {
		parts = append(parts, strings.TrimSpace(field.Name+" "+field.Type))
	}
	const most = 30
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("and %d more", len(fields)-most))
	}
	return strings.Join(parts, ", ")
}

func (f *publishFlags) tokenizerText(line func(name, format string, args ...any), r inspect.Report) {
	needed := "missing: set --tokenizer NAME or FILE, or --tokenizer-fingerprint"
	if r.Tokenizer != "" {
		needed = r.Tokenizer
	}
	vocabulary := ""
	if f.corpus.Vocabulary > 0 {
		vocabulary = fmt.Sprintf(" of a vocabulary of %s", humanize.Count(f.corpus.Vocabulary))
	}
	line("tokenizer", "%s", needed)
	line("ids", "up to %d%s", r.LargestID, vocabulary)
	if r.LastID != nil {
		line("", "%.1f %% of the documents end with %d%s", 100*r.LastShare, *r.LastID, f.tokenText(*r.LastID))
	}
}

// tokenText returns the text of a token id, if the tokenizer is given.
func (f *publishFlags) tokenText(id uint32) string {
	if f.tokens.model == nil {
		return ""
	}
	text, err := f.tokens.model.DecodePart(nil, []int32{int32(id)})
	if err != nil {
		return ""
	}
	return " " + strconv.Quote(string(text))
}

// firstText returns the beginning of the first document on one line.
func (f *publishFlags) firstText(d *inspect.FirstDocument) string {
	if d.IDs == nil {
		return strconv.Quote(d.Text)
	}
	if f.tokens.model != nil {
		ids := make([]int32, len(d.IDs))
		for i, id := range d.IDs {
			ids[i] = int32(id)
		}
		if text, err := f.tokens.model.Decode(nil, ids); err == nil {
			return fmt.Sprintf("%v %q", d.IDs, text)
		}
	}
	return fmt.Sprint(d.IDs)
}
