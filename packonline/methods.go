package packonline

import (
	"errors"
	"slices"
)

// method is one packing method.
type method struct {
	name        string
	make        func(Config) Packer
	multiBucket bool // accepts several row lengths
	// boundsDocuments is whether the method has rows of at most MaxDocumentsPerRow documents.
	boundsDocuments bool
	joinsRows       bool // determines which rows form an atom of several rows
	maxRowLength    int  // maximum tokens of a row
	// fields of Config that it reads in addition to the common ones: pool, hold, overlap, extra, padding_threshold,
	// splice
	parameters []string
	// validate returns the fields that the method does not support in an otherwise valid Config, or nil; nil if it has no
	// such limits.
	validate func(Config) []FieldError
}

var methods = []method{
	{name: "concat", make: newConcat, boundsDocuments: true, maxRowLength: maxRow},
	{name: "pad", make: newPad, boundsDocuments: true, maxRowLength: maxRow, joinsRows: true},
	{name: "ffd", make: newFFD, boundsDocuments: true, maxRowLength: maxTable, parameters: []string{"pool"}},
	{name: "bfd", make: newBFD, boundsDocuments: true, maxRowLength: maxTable,
		parameters: []string{"pool", "holdback"}},
	{name: "bfd-m", make: newBFDM, maxRowLength: maxTable, parameters: []string{"pool", "extra"}},
	{name: "seamless", make: newSeamless, maxRowLength: maxTable, parameters: []string{"pool", "overlap", "extra"}},
	{name: "bucketllm", make: newBucketLLM, multiBucket: true, maxRowLength: maxTable,
		parameters: []string{"pool", "padding_threshold"}},
	{name: "bucketllm-v0", make: newBucketLLMv0, multiBucket: true, maxRowLength: maxTable,
		parameters: []string{"pool", "padding_threshold"}},
	{name: "decompose", make: newDecompose, boundsDocuments: true, multiBucket: true, maxRowLength: maxRow,
		validate: validateDecompose},
	{name: "bucket", make: newBucket, boundsDocuments: true, multiBucket: true, maxRowLength: maxTable,
		parameters: []string{"pool", "holdback"}},
	{name: "splice", make: newSplice, multiBucket: true, maxRowLength: maxTable,
		parameters: []string{"pool", "holdback", "splice"},
		validate:   validateSplice},
	{name: "naive", make: newNaive, boundsDocuments: true, multiBucket: true, maxRowLength: maxRow},
}

// Methods returns the names that New accepts.
func Methods() []string { return methodsThat(func(*method) bool { return true }) }

// methodsThat returns the names of the methods with a property.
func methodsThat(has func(*method) bool) (names []string) {
	for i := range methods {
		if has(&methods[i]) {
			names = append(names, methods[i].name)
		}
	}
	return names
}

// Parameters returns the fields of Config that a method reads, by their names in a configuration file. It omits
// method, buckets, atom and max_age, which all methods read.
func Parameters(name string) []string {
	if m := findMethod(name); m != nil {
		return slices.Clone(m.parameters)
	}
	return nil
}

// IsMultiBucket reports whether a method accepts several row lengths.
func IsMultiBucket(name string) bool {
	m := findMethod(name)
	return m != nil && m.multiBucket
}

// MaxDropped returns the maximum number of tokens that a configuration drops from the end of a packed row, or of an
// atom that is a part of a row.
func MaxDropped(c Config) int {
	m := findMethod(c.Method)
	switch {
	case m == nil || len(c.Buckets) == 0:
		return 0
	case m.hasParameter("extra"):
		return c.Extra
	case m.hasParameter("splice") && c.Splice.Fill == "trim": // the last piece of a row begins in it
		return int(float64(c.Buckets[0])*min(c.Atom, 1)) - 1
	}
	return 0
}

// HasJoinedRows reports whether a method determines by Rows.Joined which rows form an atom of several rows. All other
// methods fill such atoms with consecutive rows.
func HasJoinedRows(name string) bool {
	m := findMethod(name)
	return m != nil && m.joinsRows
}

func findMethod(name string) *method {
	for i := range methods {
		if methods[i].name == name {
			return &methods[i]
		}
	}
	return nil
}

func (m *method) hasParameter(parameter string) bool { return slices.Contains(m.parameters, parameter) }

// New returns an empty Packer. The error joins every FieldError of the configuration.
func New(c Config) (Packer, error) {
	var bad []error
	for _, e := range c.Validate() {
		bad = append(bad, e)
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	c = c.Canonical()
	return newHold(findMethod(c.Method).make(c), c), nil
}
