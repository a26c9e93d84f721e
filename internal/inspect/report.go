// Package inspect reads inputs as they would be published, and reports the number and lengths of documents, and what
// would be skipped and why.
package inspect

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
)

// Report describes the content of inputs. Other programs read its JSON: fields may be added, and none may change its
// name or meaning.
type Report struct {
	Formats   []Format `json:"formats"` // in the order in which they were found
	Documents int64    `json:"documents"`
	Bytes     int64    `json:"bytes"`      // of texts
	Tokens    int64    `json:"tokens"`     // number of tokens in documents that are token ids
	TokenIDs  bool     `json:"token_ids"`  // whether documents are token ids
	Tokenizer string   `json:"tokenizer"`  // fingerprint of the tokenizer that produced the ids, as specified by the user
	LargestID int64    `json:"largest_id"` // -1 without token ids
	// The id with which more than half of the documents end, if one exists.
	LastID    *uint32              `json:"last_id,omitempty"`
	LastShare float64              `json:"last_share,omitempty"`
	Lengths   Lengths              `json:"lengths"` // of documents: tokens, or bytes of text
	First     *FirstDocument       `json:"first,omitempty"`
	LeftOut   map[string]SkipCount `json:"left_out"` // by reason
	Replaced  corpus.Replacements  `json:"replaced"` // bytes of texts that are not UTF-8
	Problems  []string             `json:"problems"` // errors that would end publishing
	Parts     map[string]int64     `json:"parts,omitempty"`
	Complete  bool                 `json:"complete"` // all inputs were read to their end
}

// Format describes the inputs of one format.
type Format struct {
	Name   string         `json:"format"`
	Inputs int            `json:"inputs"`
	Files  int            `json:"files"`
	Bytes  int64          `json:"bytes"` // size on disk
	Fields []record.Field `json:"fields,omitempty"`
}

// SkipCount counts what was skipped for a reason, with the first example.
type SkipCount struct {
	Count int64  `json:"count"`
	First string `json:"first"`
}

// FirstDocument is the first document.
type FirstDocument struct {
	Path  string   `json:"path"`
	Label string   `json:"label"`
	ID    string   `json:"id,omitempty"`
	Text  string   `json:"text,omitempty"` // its beginning
	IDs   []uint32 `json:"ids,omitempty"`  // the first of its token ids
}

// Limits on how much of the first document is reported, in bytes and ids.
const (
	maxShownText = 400
	maxShownIDs  = 32
)

// Empty is the reason of documents without content.
const Empty = "empty"

// Summarize reads inputs to their end, or until ctx ends. fits returns why a document would be refused as too large, or
// nil.
func Summarize(ctx context.Context, inputs []*corpus.Input, fits func(record.Document) error) Report {
	r := Report{LargestID: -1, LeftOut: map[string]SkipCount{}, Problems: []string{}, Parts: map[string]int64{}}
	lengths := &lengthSample{}
	last := map[uint32]int64{}
	for _, in := range inputs {
		if ctx.Err() != nil {
			break
		}
		r.addInput(ctx, in)
		for d, err := range in.Documents(ctx) {
			var skip *record.SkipError
			switch {
			case ctx.Err() != nil:
			case errors.As(err, &skip):
				r.addSkipped(string(skip.Reason), skip.Error())
			case err != nil:
				r.Problems = append(r.Problems, err.Error())
			case len(d.Data) == 0:
				r.addSkipped(Empty, d.Path)
			default:
				if err := fits(d); err != nil {
					r.addSkipped(string(record.TooLarge), err.Error())
					break
				}
				lengths.add(r.addDocument(in, d, last))
			}
			if ctx.Err() != nil {
				break
			}
		}
	}
	r.Complete = ctx.Err() == nil
	r.Lengths = lengths.quantiles()
	for id, n := range last {
		if 2*n > r.Documents {
			r.LastID, r.LastShare = &id, float64(n)/float64(r.Documents)
		}
	}
	return r
}

// addInput records an input.
func (r *Report) addInput(ctx context.Context, in *corpus.Input) {
	name := string(in.Format())
	i := slices.IndexFunc(r.Formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		i = len(r.Formats)
		fields, err := in.Fields(ctx)
		if err != nil && ctx.Err() == nil {
			fields = nil // reading its documents returns the error
		}
		r.Formats = append(r.Formats, Format{Name: name, Fields: fields})
	}
	f := &r.Formats[i]
	f.Inputs, f.Files, f.Bytes = f.Inputs+1, f.Files+in.Files(), f.Bytes+in.Bytes
}

func (r *Report) addSkipped(reason, what string) {
	l := r.LeftOut[reason]
	if l.Count++; l.Count == 1 {
		l.First = what
	}
	r.LeftOut[reason] = l
}

// maxLastIDs bounds the number of distinct last ids that are counted.
const maxLastIDs = 1 << 16

// addDocument counts a document and returns its length.
func (r *Report) addDocument(in *corpus.Input, d record.Document, last map[uint32]int64) int {
	r.Documents++
	r.Replaced.Add(d)
	if in.Split != "" {
		r.Parts[in.Split]++
	}
	if !in.Tokens() {
		r.Bytes += int64(len(d.Data))
		if r.First == nil {
			r.First = &FirstDocument{Path: d.Path, Label: d.Label, ID: d.ID,
				Text: strings.ToValidUTF8(string(d.Data[:min(len(d.Data), maxShownText)]), "")}
		}
		return len(d.Data)
	}
	r.TokenIDs = true
	n := len(d.Data) / 4
	r.Tokens += int64(n)
	var id uint32
	for i := 0; i < len(d.Data); i += 4 {
		id = binary.LittleEndian.Uint32(d.Data[i:])
		r.LargestID = max(r.LargestID, int64(id))
	}
	if _, known := last[id]; known || len(last) < maxLastIDs {
		last[id]++
	}
	if r.First == nil {
		r.First = &FirstDocument{Path: d.Path, Label: d.Label, ID: d.ID}
		for i := 0; i < min(n, maxShownIDs); i++ {
			r.First.IDs = append(r.First.IDs, binary.LittleEndian.Uint32(d.Data[4*i:]))
		}
	}
	return n
}
