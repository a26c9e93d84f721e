package packonline

import (
	"errors"
	"slices"
)

// method is one packing method.
type method struct {
	name    string
	make    func(Config) Packer
	several bool // accepts several row lengths
	joins   bool // determines which rows form an atom of several rows
	longest int  // maximum tokens of a row
	// fields of Config that it reads in addition to the common ones: pool, hold, overlap, extra, padding_threshold,
	// splice
	parameters []string
	// refuse returns the fields that the method does not support in an otherwise valid Config, or nil; nil if it has no
	// such limits.
	refuse func(Config) []FieldError
}

var methods = []method{
	{name: "concat", make: newConcat, longest: maxRow},
	{name: "pad", make: newPad, longest: maxRow, joins: true},
	{name: "ffd", make: newFFD, longest: maxTable, parameters: []string{"pool"}},
	{name: "bfd", make: newBFD, longest: maxTable, parameters: []string{"pool", "hold"}},
	{name: "bfd-m", make: newBFDM, longest: maxTable, parameters: []string{"pool", "extra"}},
	{name: "seamless", make: newSeamless, longest: maxTable, parameters: []string{"pool", "overlap", "extra"}},
	{name: "bucketllm", make: newBucketLLM, several: true, longest: maxTable,
		parameters: []string{"pool", "padding_threshold"}},
	{name: "bucketllm-v0", make: newBucketLLMv0, several: true, longest: maxTable,
		parameters: []string{"pool", "padding_threshold"}},
	{name: "decompose", make: newDecompose, several: true, longest: maxRow, refuse: refuseDecompose},
	{name: "bucket", make: newBucket, several: true, longest: maxTable, parameters: []string{"pool", "hold"}},
	{name: "splice", make: newSplice, several: true, longest: maxTable, parameters: []string{"pool", "hold", "splice"},
		refuse: refuseSplice},
	{name: "naive", make: newNaive, several: true, longest: maxRow},
}

// Methods returns the names that New accepts.
func Methods() []string {
	names := make([]string, len(methods))
	for i := range methods {
		names[i] = methods[i].name
	}
	return names
}

// Parameters returns the fields of Config that a method reads, by their names in a configuration file. It omits
// method, buckets, atom and max_age, which all methods read.
func Parameters(name string) []string {
	if m := find(name); m != nil {
		return slices.Clone(m.parameters)
	}
	return nil
}

// Buckets reports whether a method accepts several row lengths.
func Buckets(name string) bool {
	m := find(name)
	return m != nil && m.several
}

// MaxDropped returns the maximum number of tokens that a configuration drops from the end of a packed row, or of an
// atom that is a part of a row.
func MaxDropped(c Config) int {
	m := find(c.Method)
	switch {
	case m == nil || len(c.Buckets) == 0:
		return 0
	case m.reads("extra"):
		return c.Extra
	case m.reads("splice") && c.Splice.Fill == "trim": // the last piece of a row begins in it
		return int(float64(c.Buckets[0])*min(c.Atom, 1)) - 1
	}
	return 0
}

// Joins reports whether a method determines by Rows.Joined which rows form an atom of several rows. All other methods
// fill such atoms with consecutive rows.
func Joins(name string) bool {
	m := find(name)
	return m != nil && m.joins
}

func find(name string) *method {
	for i := range methods {
		if methods[i].name == name {
			return &methods[i]
		}
	}
	return nil
}

func (m *method) reads(parameter string) bool { return slices.Contains(m.parameters, parameter) }

// New returns an empty Packer. The error joins every FieldError of the configuration.
func New(c Config) (Packer, error) {
	var bad []error
	for _, e := range c.Validate() {
		bad = append(bad, e)
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	c = c.Relevant()
	return newHold(find(c.Method).make(c), c), nil
}
