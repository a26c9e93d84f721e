package record

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"loaderd/internal/corpus/jsonvalue"
)

// Columns name the fields of a record, or the columns of a table, that make up a document.
type Columns struct {
	// Text is the field or column of the document. It is not empty.
	Text string
	// ID is the field or column of the document's own id; empty reads none.
	ID string
	// Tokens reports that Text is a list of token ids, not text.
	Tokens bool
	// MaxDocument is the largest document in bytes.
	MaxDocument int64
	// Meta are values that are passed on with the document.
	Meta []Meta
}

// Check returns an error if a column has two purposes, because one of them would be ignored silently.
func (c Columns) Check() error {
	if c.Text == c.ID {
		return fmt.Errorf(
			"column %q is set twice, as the document (--text-column) and as its id (--id-column)", c.Text)
	}
	for i, m := range c.Meta {
		if slices.ContainsFunc(c.Meta[:i], func(other Meta) bool { return other.Name == m.Name }) {
			return fmt.Errorf("--meta names %q twice", m.Name)
		}
	}
	return nil
}

// CheckUnique returns an error if the name of a required column occurs twice in a table.
func (c Columns) CheckUnique(names []string) error {
	asked := []string{c.Text, c.ID}
	for _, m := range c.Meta {
		asked = append(asked, m.Column)
	}
	for _, name := range asked {
		if first, _, dotted := strings.Cut(name, "."); dotted && !slices.Contains(names, name) {
			name = first
		}
		n := 0
		for _, has := range names {
			if has == name {
				n++
			}
		}
		if n > 1 {
			return fmt.Errorf("%d columns are named %q: rename all but one", n, name)
		}
	}
	return nil
}

// CheckID returns an error for an id of more bytes than a header can hold.
func (c Columns) CheckID(size int) error {
	if size > MaxID {
		return Errorf("the id in %q has %d bytes, more than %d", c.ID, size, MaxID)
	}
	return nil
}

// TooLargeError returns the error of a document of n bytes, more than MaxDocument.
func (c Columns) TooLargeError(n int) error {
	return &recordError{TooLarge, fmt.Errorf("document has %d bytes, more than %d", n, c.MaxDocument)}
}

// lineFactor bounds a line by the largest document: JSON may write a byte as six (\u0000).
const lineFactor = 6

// MaxRecord returns the largest size of a record in bytes. Larger ones are not read completely.
func (c Columns) MaxRecord() int64 { return lineFactor*c.MaxDocument + 64<<10 }

// HasDocument reports whether a record has a text, in parts or not, or tokens if Tokens is set.
func (c Columns) HasDocument(fields jsonvalue.Object) bool {
	return fields.Lookup(c.Text) != nil || !c.Tokens && fields.Value("parts") != nil
}

// MissingColumnError returns the error of a table without a column, but with columns of the given names.
func (c Columns) MissingColumnError(name string, names []string) error {
	has := ListNames(slices.Clone(names))
	return fmt.Errorf("no column %q; it has %s%s", name, has, c.missingHint(name, has))
}

// MissingTextError returns the error of a record or table without the text, but with columns of the given names, which
// it sorts.
func (c Columns) MissingTextError(names []string) error {
	has := ListNames(names)
	return fmt.Errorf("no %s; it has %s%s", strconv.Quote(c.Text), has, c.missingHint(c.Text, has))
}

// missingHint returns a hint for a name that is not among the fields or columns in has.
func (c Columns) missingHint(name, has string) string {
	if name != c.Text {
		return ""
	}
	for _, chat := range []string{"messages", "conversations"} {
		if strings.Contains(has, strconv.Quote(chat)) {
			return " (chats need a chat template: publish them from Python with loaderd.documents(rows, messages=" +
				strconv.Quote(chat) + ", chat=tokenizer); --text-column names another field)"
		}
	}
	return " (--text-column names another)"
}
