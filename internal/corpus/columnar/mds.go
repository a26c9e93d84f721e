package columnar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"loaderd/internal/corpus/jsonvalue"
	"loaderd/internal/corpus/record"
	"loaderd/internal/mds"
	"loaderd/internal/tokenfiles"
)

// MDS reads documents of a shard of MosaicML's format MDS.
type MDS struct {
	File    record.File
	Columns record.Columns
	// Shard is the shard's entry in the index of its folder, nil for a shard without an index.
	Shard *mds.Shard
	// TokenType is the type of token ids in a column of bytes.
	TokenType tokenfiles.Type
	// Start is how many first samples are not read, if At is set. At returns a reader of the shard from an offset on.
	Start int64
	At    func(offset int64) io.Reader
	// OnSample is called before each sample is yielded, with the number of samples up to it.
	OnSample func(samples int64)
}

// mdsDecoder converts samples to documents.
type mdsDecoder struct {
	record.Columns
	tokenType tokenfiles.Type
}

// Documents yields a document per sample of a shard, which r reads. It returns whether the iteration continues.
func (m MDS) Documents(r io.Reader, yield record.Yield) bool {
	decoder := mdsDecoder{m.Columns, m.TokenType}
	samples, c, err := decoder.openShard(m.Shard, r)
	first := int64(1)
	if err == nil && m.At != nil {
		first += m.Start
		err = samples.Skip(m.Start, m.At)
	}
	if err != nil {
		return m.File.Fail(yield, err)
	}
	for row := first; ; row++ {
		values, err := samples.Next()
		if err == io.EOF {
			return true
		}
		if err != nil {
			return m.File.Fail(yield, err)
		}
		m.OnSample(row)
		d, err := decoder.decodeDocument(c, values)
		more := false
		if err != nil {
			more = m.File.Skip(yield, row, err)
		} else {
			more = m.File.Emit(yield, d)
		}
		if !more {
			return false
		}
	}
}

// openShard opens a shard by its index entry or, if that is nil, by its own header.
func (o mdsDecoder) openShard(indexed *mds.Shard, r io.Reader) (samples *mds.Reader, c mdsColumns, err error) {
	if indexed == nil {
		if samples, err = mds.OpenShard(r); err != nil {
			return nil, c, err
		}
		c, err = o.resolveColumns(samples.Shard())
		samples.Want(c.wanted, o.MaxDocument)
		return samples, c, err
	}
	if c, err = o.resolveColumns(*indexed); err != nil {
		return nil, c, err
	}
	samples, err = mds.NewReader(r, *indexed, c.wanted, o.MaxDocument)
	return samples, c, err
}

// resolveColumns are the indexes of the columns that are read; -1 for missing ones.
type mdsColumns struct {
	shard  mds.Shard
	wanted []bool
	index  map[string]int
}

func (o mdsDecoder) resolveColumns(s mds.Shard) (mdsColumns, error) {
	c := mdsColumns{shard: s, wanted: make([]bool, len(s.Names)), index: map[string]int{}}
	if err := o.CheckUnique(s.Names); err != nil {
		return c, err
	}
	for _, name := range []string{o.Text, o.ID, "id", "path", "meta", "url"} {
		at := s.Column(name)
		if at >= 0 {
			c.index[name], c.wanted[at] = at, true
		} else if name != "" && (name == o.Text || name == o.ID) {
			return c, o.MissingColumnError(name, s.Names)
		}
	}
	encoding := s.Encodings[c.index[o.Text]]
	switch {
	case !o.Tokens && encoding != "str" && encoding != "bytes" && encoding != "json":
		return c, fmt.Errorf("column %q is %s: want text (token ids need --tokenizer)", o.Text, encoding)
	case o.Tokens && encoding == "bytes" && o.tokenType.Size == 0:
		return c, fmt.Errorf("column %q is bytes: set the type of its ids with --token-type, such as int64", o.Text)
	case o.Tokens && encoding != "bytes" && encoding != "json" && !mds.IsArray(encoding):
		return c, fmt.Errorf("column %q is %s: want token ids", o.Text, encoding)
	}
	for _, m := range o.Meta {
		at := s.Column(m.Column)
		if at < 0 {
			return c, o.MissingColumnError(m.Column, s.Names)
		}
		c.index[m.Column], c.wanted[at] = at, true
	}
	return c, nil
}

func (o mdsDecoder) decodeDocument(c mdsColumns, values []mds.Value) (d record.Document, err error) {
	at := c.index[o.Text]
	if values[at].Size > o.MaxDocument {
		return d, o.TooLargeError(int(values[at].Size))
	}
	if d.Data, err = o.decodeContent(c.shard.Encodings[at], values[at].Data); err != nil {
		return record.Document{}, record.Errorf("column %q: %w", o.Text, err)
	}
	if int64(len(d.Data)) > o.MaxDocument {
		return record.Document{}, o.TooLargeError(len(d.Data))
	}
	value := func(name string) json.RawMessage {
		at, ok := c.index[name]
		if !ok || values[at].Data == nil || values[at].Size > record.MaxID {
			return nil
		}
		raw, _ := mds.JSON(c.shard.Encodings[at], values[at].Data) // a value that is not JSON names nothing
		return raw
	}
	metaPath := record.DecodeLabel(jsonvalue.InnerObject(value("meta")).Value("path"))
	d.SetLabels(func(name string) string { return record.DecodeLabel(value(name)) }, metaPath)
	if d.Meta, err = o.MetaJSON(func(name string) (json.RawMessage, error) {
		at := c.index[name]
		if values[at].Data == nil {
			return nil, fmt.Errorf("a value of %d bytes", values[at].Size)
		}
		return mds.JSON(c.shard.Encodings[at], values[at].Data)
	}); err != nil {
		return record.Document{}, err
	}
	if o.ID == "" {
		return d, nil
	}
	if d.ID, err = record.DecodeID(value(o.ID)); err != nil {
		return record.Document{}, record.Errorf("column %q: %w", o.ID, err)
	}
	return d, o.CheckID(len(d.ID))
}

// decodeContent returns the document of a value, without sharing its memory.
func (o mdsDecoder) decodeContent(encoding string, data []byte) ([]byte, error) {
	if encoding == "json" {
		var err error
		if data, err = mds.JSON(encoding, data); err != nil {
			return nil, err
		}
	}
	switch {
	case encoding == "json" && o.Tokens:
		return record.DecodeTokens(data)
	case encoding == "json":
		return record.DecodeText(data)
	case !o.Tokens && !utf8.Valid(data):
		return nil, errors.New("not valid UTF-8")
	case !o.Tokens:
		return bytes.Clone(data), nil
	}
	typ := o.tokenType
	if encoding != "bytes" {
		a, err := mds.ArrayOf(encoding, data)
		if err != nil {
			return nil, err
		}
		if typ, err = tokenfiles.TypeOf(a.Type); err != nil {
			return nil, err
		}
		data = a.Data
	}
	if len(data)%typ.Size != 0 {
		return nil, fmt.Errorf("%d bytes are not a whole number of %s", len(data), typ.Name)
	}
	return typ.Append(make([]byte, 0, 4*(len(data)/typ.Size)), data)
}

// ShardFields returns the columns of a shard.
func ShardFields(s mds.Shard) (fields []record.Field) {
	for i, name := range s.Names {
		fields = append(fields, record.Field{Name: name, Type: s.Encodings[i]})
	}
	return fields
}

// MDSFields returns the columns of a shard by its own header, with which r starts.
func MDSFields(r io.Reader) ([]record.Field, error) {
	m, err := mds.OpenShard(r)
	if err != nil {
		return nil, err
	}
	return ShardFields(m.Shard()), nil
}
