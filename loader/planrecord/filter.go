package planrecord

import (
	"encoding/binary"
	"fmt"
	"slices"

	"loaderd/loader/filter"
	"loaderd/loader/internal/codec"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
)

// Filter replaces a filter after an arrival.
type Filter struct {
	Arrival   uint64
	Requester string // as in Flush
	Source    string // name of the source whose filter it is; empty for the filter of all documents
	Where     string // the expression; empty for none
}

// Kind implements Entry.
func (Filter) Kind() byte { return kindFilter }

// EffectiveAfter implements Control.
func (c Filter) EffectiveAfter() uint64 { return c.Arrival }

// PlaceAfter implements Control.
func (c Filter) PlaceAfter(arrival uint64) Control {
	c.Arrival = arrival
	return c
}

func (c Filter) appendBody(b []byte) []byte {
	b = codec.AppendString(binary.AppendUvarint(b, c.Arrival), c.Requester)
	return codec.AppendString(codec.AppendString(b, c.Source), c.Where)
}

func (c Filter) String() string {
	return fmt.Sprintf("filter of %s behind arrival %d: %q%s", c.subject(), c.Arrival, c.Where,
		requesterSuffix(c.Requester))
}

// subject names the documents that the filter applies to.
func (c Filter) subject() string {
	if c.Source == "" {
		return "all documents"
	}
	return "source " + c.Source
}

// Effect describes the change for display.
func (c Filter) Effect() string {
	if c.Where == "" {
		return "filter of " + c.subject() + " removed"
	}
	return "filter of " + c.subject() + ": " + c.Where
}

// Validate rejects a name or an expression that no record can contain.
func (c Filter) Validate() error {
	switch {
	case c.Source != "" && !mixture.IsValidName(c.Source):
		return fmt.Errorf("%q is no name of a source", c.Source)
	case len(c.Where) > filter.MaxExpression:
		return fmt.Errorf("the expression has %d bytes, at most %d are possible", len(c.Where), filter.MaxExpression)
	}
	return nil
}

// maxSourceName is the maximum length of a source's name in bytes.
const maxSourceName = 64

func readFilter(r *codec.Cursor) Control {
	c := Filter{Arrival: r.Uvarint(), Requester: readIdentity(r)}
	c.Source = string(r.Bytes(int(r.BoundedUvarint(maxSourceName))))
	c.Where = string(r.Bytes(int(r.BoundedUvarint(filter.MaxExpression))))
	if err := c.Validate(); r.Err == nil && err != nil {
		r.Fail(err)
	}
	return c
}

// checkFilter rejects a filter of an unknown source, and an expression that is invalid for the run's documents.
func (o *Validator) checkFilter(c Filter) error {
	i := slices.IndexFunc(o.sources, func(s plan.SourceInfo) bool { return s.Name == c.Source })
	if o.FullHistory && c.Source != "" && (i < 0 || o.sourceEnds[i].removed) {
		return fmt.Errorf("a %s: the run has no such source", c)
	}
	if o.Config == nil {
		return nil
	}
	if err := o.Config.Documents.CheckFilter(c.Where); err != nil {
		return fmt.Errorf("a %s: %w", c, err)
	}
	return nil
}
