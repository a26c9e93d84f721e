package plan

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"strconv"
	"strings"
)

// Skip is the reason why a document is not used. It depends only on the message and, for duplicates, on earlier
// messages.
type Skip string

// The reasons to skip a document.
const (
	SkipUndecodable Skip = "undecodable" // sent to the dead-letter stream
	SkipEmpty       Skip = "empty"       // no text and no tokens
	SkipMasked      Skip = "masked"      // no token has a loss
	SkipDuplicate   Skip = "duplicate"   // its id is among those of the last documents; set by the planner
	SkipSplit       Skip = "split"       // not in the split of its source
	SkipShort       Skip = "short"       // fewer tokens than its source's min_tokens; set by the planner
	// more tokens than documents.max_tokens, or than its source's max_tokens; the planner sets the latter
	SkipLong     Skip = "long"
	SkipFiltered Skip = "filtered" // its filters do not match; set by the planner
)

// skipReasons has all reasons with a text for display and the recommended action of an operator. Everything that
// shows skipped documents (status, page, log, metrics, the summary of a publish) uses the entries of this list.
var skipReasons = [...]struct {
	skip       Skip
	text, do   string
	configured bool // requested by the configuration
}{
	{SkipUndecodable, "undecodable", "see the dead letters (loaderd dlq list) and the producer", false},
	{SkipEmpty, "without text or tokens", "check the field or column that the producer publishes", false},
	{SkipMasked, "without a token that has a loss",
		"mark what is to be trained on: parts with \"loss\": true, or loss runs of token ids", false},
	{SkipDuplicate, "with the id of an earlier document", "to train on them again publish them with other ids, or without",
		false},
	{SkipSplit, "outside the split of their source", "nothing, if sources.NAME.split is as intended", true},
	{SkipShort, "below min_tokens of their source", "nothing, if the bound is as intended", true},
	{SkipLong, "above max_tokens",
		"nothing, if the bound is as intended; documents.max_tokens can cut or split them instead", true},
	{SkipFiltered, "rejected by a filter (where)",
		"nothing, if the filters are as intended; loaderd filter shows and changes them", true},
}

// Text returns a description of the skipped documents that follows their number: "undecodable", "without text or
// tokens".
func (s Skip) Text() string { return skipReasons[s.index()].text }

// Do returns the recommended action of an operator for documents skipped for this reason.
func (s Skip) Do() string { return skipReasons[s.index()].do }

// IsConfigured reports whether the configuration requests that such documents are skipped.
func (s Skip) IsConfigured() bool { return skipReasons[s.index()].configured }

// index returns the index in skipReasons. A reason that is not in the list counts as undecodable.
func (s Skip) index() int {
	for i := range skipReasons {
		if skipReasons[i].skip == s {
			return i
		}
	}
	return 0
}

// Skips counts documents that are not used, by reason. Its JSON is an object with every reason.
type Skips [len(skipReasons)]int64

// Add adds n documents that are skipped for a reason.
func (s *Skips) Add(why Skip, n int64) { s[why.index()] += n }

// Count returns the number of documents that are skipped for a reason.
func (s Skips) Count(why Skip) int64 { return s[why.index()] }

// All yields every reason with its count, in the order in which they are shown.
func (s Skips) All() iter.Seq2[Skip, int64] {
	return func(yield func(Skip, int64) bool) {
		for i, n := range s {
			if !yield(skipReasons[i].skip, n) {
				return
			}
		}
	}
}

// Total returns the number of skipped documents.
func (s Skips) Total() (n int64) {
	for _, x := range s {
		n += x
	}
	return n
}

// Sub returns the counts added since an earlier value.
func (s Skips) Sub(before Skips) Skips {
	for i := range s {
		s[i] -= before[i]
	}
	return s
}

// String lists the reasons with a count above 0: "1 undecodable, 20 without a token that has a loss".
func (s Skips) String() string {
	var parts []string
	for why, n := range s.All() {
		if n > 0 {
			parts = append(parts, strconv.FormatInt(n, 10)+" "+why.Text())
		}
	}
	return strings.Join(parts, ", ")
}

// MarshalJSON writes an object of counts by reason.
func (s Skips) MarshalJSON() ([]byte, error) {
	return json.Marshal(maps.Collect(s.All()))
}

// UnmarshalJSON reads an object of counts by reason. A reason that is not in the list is an error.
func (s *Skips) UnmarshalJSON(b []byte) error {
	var in map[Skip]int64
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*s = Skips{}
	for why, n := range in {
		if i := why.index(); skipReasons[i].skip != why || n < 0 {
			return fmt.Errorf("%d documents skipped for %q: unknown reason or negative count", n, why)
		}
		s.Add(why, n)
	}
	return nil
}
