package simulatecmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"loaderd/internal/config"
	"loaderd/internal/simulation"
	"loaderd/packonline"
	"loaderd/packonline/similarity"
)

// packingFlags are the flags of a packing configuration. Their defaults are those of the daemon.
type packingFlags struct {
	config packonline.Config
	length int
	below  int // documents shorter than this are short; 0: from row lengths
}

// short returns the length below which documents count as short. One of the figures is how their share of the tokens
// varies over a run.
func (p *packingFlags) short() int {
	if p.below > 0 {
		return p.below
	}
	return simulation.DefaultShortLength(p.config.Buckets)
}

// methodFlags are the parameters that only some methods use.
var methodFlags = []struct{ flag, parameter string }{
	{"holdback", "holdback"}, {"overlap", "overlap"}, {"extra", "extra"}, {"padding-threshold", "padding_threshold"},
	{"retriever", "splice"}, {"k", "splice"}, {"order", "splice"}, {"fill", "splice"}, {"path-bonus", "splice"},
	{"near-duplicate", "splice"},
	{"postings", "splice"}, {"dimension", "splice"},
}

func (p *packingFlags) register(cmd *cobra.Command) {
	defaults := config.Default().Plan.Packing
	f, c := cmd.Flags(), &p.config
	*c = defaults
	c.Buckets = nil
	f.IntVar(&p.length, "length", 0, "row length in tokens")
	f.IntSliceVar(&c.Buckets, "buckets", nil, "row lengths in tokens, ascending")
	f.IntVar(&c.Pool, "pool", defaults.Pool,
		"pieces in the packing pool; 0: the whole input, by default without age limit and holdback")
	f.IntVar(&c.Holdback, "holdback", defaults.Holdback,
		"holdback: pieces in finished rows that are kept back, in percent of the pool ("+methodsWith("holdback")+
			"); 0: none")
	f.IntVar(&c.MaxAge, "max-age", defaults.MaxAge, "documents that may arrive while a document waits; 0: unlimited")
	f.Uint64Var(&c.Seed, "seed", 0, "key of the method's random draws")
	f.IntVar(&p.below, "short", 0,
		"tokens below which a document counts as short (default: the row length, or twice the shortest of several)")
	cmd.MarkFlagsMutuallyExclusive("length", "buckets")
}

// registerMethod adds the method and its parameters.
func (p *packingFlags) registerMethod(cmd *cobra.Command) {
	defaults := config.Default().Plan.Packing
	f, c := cmd.Flags(), &p.config
	f.StringVar(&c.Method, "method", defaults.Method, "packing method: "+strings.Join(packonline.Methods(), ", "))
	f.Float64Var(&c.Atom, "atom", defaults.Atom, "atom, the unit that is shuffled, in rows: 0.25, 0.5, 1, 2 or 4")
	f.IntVar(&c.MaxDocumentsPerRow, "max-documents-per-row", defaults.MaxDocumentsPerRow,
		"documents that may share a row; 0: unlimited")
	f.Float64Var(&c.Overlap, "overlap", defaults.Overlap, "share of a row that windows may repeat ("+
		methodsWith("overlap")+")")
	f.IntVar(&c.Extra, "extra", defaults.Extra, "tokens beyond the row that may be dropped ("+methodsWith("extra")+")")
	f.Float64Var(&c.PaddingThreshold, "padding-threshold", defaults.PaddingThreshold,
		"share of a row that may stay empty ("+methodsWith("padding_threshold")+")")
}

// registerSplice adds the parameters of splice.
func (p *packingFlags) registerSplice(cmd *cobra.Command) {
	defaults := config.Default().Plan.Packing.Splice
	f, s := cmd.Flags(), &p.config.Splice
	f.StringVar(&s.Retriever, "retriever", defaults.Retriever, "splice: retriever of related documents: "+
		strings.Join(similarity.Retrievers, ", "))
	f.IntVar(&s.K, "k", defaults.K, "splice: related documents after each document")
	f.StringVar(&s.Order, "order", defaults.Order, "splice: order of the documents in a row: "+
		strings.Join(packonline.Orders, ", "))
	f.StringVar(&s.Fill, "fill", defaults.Fill, "splice: end of a row: "+strings.Join(packonline.Fills, ", "))
	f.IntVar(&s.PathBonus, "path-bonus", defaults.PathBonus,
		"splice: score bonus for documents of the same folder, in percent")
	f.IntVar(&s.NearDuplicate, "near-duplicate", defaults.NearDuplicate,
		"splice: skip documents above this percentage of a document's own score; 0: skip none")
	f.IntVar(&s.Postings, "postings", defaults.Postings, "splice: limit of index entries per query")
	f.IntVar(&s.Dimension, "dimension", defaults.Dimension,
		"splice: dimension of embeddings (default: that of the first)")
}

// settle applies the effects of one flag on others: --length sets a single bucket, and a pool of 0 disables max-age
// and hold unless their flags are given.
func (p *packingFlags) settle(cmd *cobra.Command) {
	if cmd.Flags().Changed("length") {
		p.config.Buckets = []int{p.length}
	}
	if p.config.Pool == 0 && !cmd.Flags().Changed("max-age") {
		p.config.MaxAge = 0
	}
	if p.config.Pool == 0 && !cmd.Flags().Changed("holdback") {
		p.config.Holdback = 0
	}
}

// like copies settings that no flag sets from another configuration.
func (p *packingFlags) like(cmd *cobra.Command, other *packonline.Config) {
	given, c := cmd.Flags().Changed, &p.config
	if !given("pool") {
		c.Pool = other.Pool
	}
	if !given("max-age") {
		c.MaxAge = other.MaxAge
	}
	if !given("buckets") && !given("length") {
		c.Buckets = other.Buckets
	}
	if !given("max-documents-per-row") {
		c.MaxDocumentsPerRow = other.MaxDocumentsPerRow
	}
	c.Overlap, c.Extra, c.PaddingThreshold = other.Overlap, other.Extra, other.PaddingThreshold
}

// check reports all errors, including parameters that the method does not use.
func (p *packingFlags) check(cmd *cobra.Command) error {
	method := p.config.Method
	var bad []error
	for _, m := range methodFlags {
		if cmd.Flags().Changed(m.flag) && slices.Contains(packonline.Methods(), method) &&
			!slices.Contains(packonline.Parameters(method), m.parameter) {
			bad = append(bad, fmt.Errorf("--%s: method %s does not use it; these do: %s", m.flag, method,
				methodsWith(m.parameter)))
		}
	}
	if p.below < 0 {
		bad = append(bad, fmt.Errorf("--short: %d: want tokens, 1 or more, or 0 for the default", p.below))
	}
	return errors.Join(append(bad, joined(simulation.Validate(p.config)))...)
}

// joined returns one error for invalid fields, nil for none.
func joined(fields []packonline.FieldError) error {
	var bad []error
	for _, e := range fields {
		bad = append(bad, e)
	}
	return errors.Join(bad...)
}

// methodsWith lists the methods that use a parameter.
func methodsWith(parameter string) string {
	var names []string
	for _, m := range packonline.Methods() {
		if slices.Contains(packonline.Parameters(m), parameter) {
			names = append(names, m)
		}
	}
	if len(names) == 0 {
		return "no method"
	}
	return strings.Join(names, ", ")
}
