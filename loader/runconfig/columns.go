package runconfig

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
)

// TokenColumn is a column of values that documents provide for each of their tokens.
type TokenColumn struct {
	// Type is one of the Column constants.
	Type string `koanf:"type" json:"type"`
	// Fill is the value of tokens without one: tokens of documents without the column, tokens that are inserted before,
	// into or after documents, and padding. For a bool column it is 0 or 1.
	Fill Fill `koanf:"fill" json:"fill"`
}

// Fill is the value of tokens without one.
type Fill float64

// Values of TokenColumn.Type.
const (
	ColumnFloat16 = "float16"
	ColumnFloat32 = "float32"
	ColumnInt8    = "int8"
	ColumnInt16   = "int16"
	ColumnInt32   = "int32"
	ColumnBool    = "bool"
	ColumnNone    = "none" // documents may have the column, and it is ignored
)

// Types of the values of a document.
const (
	MetaString  = "string"
	MetaInt64   = "int64"
	MetaFloat64 = "float64"
)

// MaxMetaBytes is the maximum length of a document's text value in bytes.
const MaxMetaBytes = 1 << 10

// maxColumns is the maximum number of token columns and metadata values of a run together.
const maxColumns = 64

const maxColumnName = 64

var columnName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reservedNames are the reserved names of batch columns and of fields of messages with several documents.
var reservedNames = []string{
	"ids", "id", "loss", "weight", "meta", "text", "parts", "messages", "path", "domain",
	"input_ids", "segment_ids", "cu_seqlens", "position_ids", "labels", "loss_runs", "loss_weights",
	"documents", "sources",
	"num_sources", "max_seqlen", "num_loss_tokens", "num_loss_tokens_global",
}

// ValueBytes returns the size of a value in memory in bytes. A value of a bool column has one byte.
func (c TokenColumn) ValueBytes() int {
	switch c.Type {
	case ColumnFloat32, ColumnInt32:
		return 4
	case ColumnFloat16, ColumnInt16:
		return 2
	}
	return 1
}

// TokenColumns returns the names of the columns that the run reads, in the order that determines their indices.
func (c Documents) TokenColumns() []string {
	names := slices.Sorted(maps.Keys(c.Columns))
	return slices.DeleteFunc(names, func(name string) bool { return c.Columns[name].Type == ColumnNone })
}

// MetaColumns returns the names of the metadata values of a document, in the order that determines their indices.
func (c Documents) MetaColumns() []string { return slices.Sorted(maps.Keys(c.Meta)) }

// IncompatibleSettings returns the settings of an old configuration that permit documents which this configuration
// cannot decode: several documents per message, and their columns and values. A metadata value is ignored if each
// message is one document, but must be declared for a message of several. Settings that only the new configuration has
// are not returned.
func (c Documents) IncompatibleSettings(old Documents) (changes []string) {
	if old.MultiplePerMessage && !c.MultiplePerMessage {
		changes = append(changes, "documents.multiple_per_message: true")
	}
	for _, name := range slices.Sorted(maps.Keys(old.Columns)) {
		was := old.Columns[name].Type
		if is := c.Columns[name].Type; is != was && is != ColumnNone {
			changes = append(changes, fmt.Sprintf("documents.columns.%s of type %s", name, was))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.Meta)) {
		is, there := c.Meta[name]
		left := !there && (!old.MultiplePerMessage || c.Columns[name].Type == ColumnNone)
		if was := old.Meta[name]; is != was && !left {
			changes = append(changes, fmt.Sprintf("documents.meta.%s: %s", name, was))
		}
	}
	return changes
}

func (c Documents) validateColumns(add func(field string, value any, want string)) {
	if n := len(c.Columns) + len(c.Meta); n > maxColumns {
		add("columns", n, fmt.Sprintf("at most %d columns, those of documents.meta included", maxColumns))
	}
	if len(c.TokenColumns()) > 0 && !c.MultiplePerMessage {
		add("columns", strings.Join(c.TokenColumns(), ", "),
			"none without documents.multiple_per_message: true, because they need record batches")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Columns)) {
		field := "columns." + name
		if want := nameRequirement(name); want != "" {
			add(field, name, want)
		}
		c.Columns[name].validate(func(of string, value any, want string) { add(field+"."+of, value, want) })
	}
	for _, name := range slices.Sorted(maps.Keys(c.Meta)) {
		field := "meta." + name
		want := nameRequirement(name)
		if _, both := c.Columns[name]; both {
			want = "another name: documents.columns has it"
		}
		if want != "" {
			add(field, name, want)
		}
		if t := c.Meta[name]; t != MetaString && t != MetaInt64 && t != MetaFloat64 {
			add(field, t, fmt.Sprintf("%s, %s or %s", MetaString, MetaInt64, MetaFloat64))
		}
	}
}

// nameRequirement returns what is required of a column's name that is invalid, or the empty string.
func nameRequirement(name string) string {
	switch {
	case !columnName.MatchString(name) || len(name) > maxColumnName:
		return fmt.Sprintf("a name of letters, digits and _ that begins with no digit, of at most %d", maxColumnName)
	case slices.Contains(reservedNames, name):
		return "another name: these are taken: " + strings.Join(reservedNames, ", ")
	}
	return ""
}

func (c TokenColumn) validate(add func(field string, value any, want string)) {
	fill := float64(c.Fill)
	within := func(most float64) {
		if !(math.Abs(fill) <= most) {
			add("fill", fill, "a finite number that "+c.Type+" holds")
		}
	}
	whole := func(least, most float64) {
		if fill != math.Trunc(fill) || fill < least || fill > most {
			add("fill", fill, fmt.Sprintf("a whole number of %.0f to %.0f", least, most))
		}
	}
	switch c.Type {
	case ColumnFloat16:
		within(65504)
	case ColumnFloat32:
		within(math.MaxFloat32)
	case ColumnInt8:
		whole(math.MinInt8, math.MaxInt8)
	case ColumnInt16:
		whole(math.MinInt16, math.MaxInt16)
	case ColumnInt32:
		whole(math.MinInt32, math.MaxInt32)
	case ColumnBool:
		if fill != 0 && fill != 1 {
			add("fill", fill, "true or false")
		}
	case ColumnNone:
	default:
		add("type", c.Type, strings.Join([]string{ColumnFloat16, ColumnFloat32, ColumnInt8, ColumnInt16, ColumnInt32,
			ColumnBool}, ", ")+", or none to leave it out")
	}
}
