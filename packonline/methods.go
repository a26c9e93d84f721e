package packonline

import (
	"errors"
	"slices"
)

// method is one packing method.
type method struct {
	name    string
	make    func(Config) Packer
	several bool // takes several row lengths
	joins   bool // says itself which rows an atom of several has
	longest int  // most tokens of a row
	// fields of Config that it reads beside those that all do: pool, hold, overlap, extra, padding_threshold, splice
	parameters []string
	// refuse returns what the method can not do in a Config that is good otherwise; nil without any such.
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

// Methods lists the names that New knows.
func Methods() []string {
	names := make([]string, len(methods))
	for i := range methods {
		names[i] = methods[i].name
	}
	return names
}

// Parameters lists the fields of Config, by their names in a configuration file, that a method reads beside method,
// buckets, atom and max_age, which all do.
func Parameters(name string) []string {
	if m := find(name); m != nil {
		return slices.Clone(m.parameters)
	}
	return nil
}

// Buckets reports whether a method takes several row lengths.
func Buckets(name string) bool {
	m := find(name)
	return m != nil && m.several
}

// MaxDropped returns the most tokens that a configuration drops from the end of a packed row: of an atom, where that is
// a part of a row.
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

// Joins reports whether a method says itself, by Rows.Joined, which rows belong to an atom of several. All others fill
// such atoms one row after the other.
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
