package corpus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"

	"loaderd/internal/corpus/compression"
	"loaderd/internal/mds"
	"loaderd/internal/tokenfiles"
)

// mds yields a document a sample of a shard.
func (in *Input) mds(s source, r io.Reader, yield yielder) bool {
	fail := func(err error) bool { return yield(Document{}, fmt.Errorf("read %s: %w", s.origin, err)) && false }
	samples, c, err := in.options.openShard(s.shard, r)
	if err != nil {
		return fail(err)
	}
	for row := int64(1); ; row++ {
		values, err := samples.Next()
		if err == io.EOF {
			return true
		}
		if err != nil {
			return fail(err)
		}
		d, err := in.options.mdsDocument(c, values)
		more := false
		if err != nil {
			more = s.skip(yield, row, err)
		} else {
			more = s.give(yield, d)
		}
		if !more {
			return false
		}
	}
}

// openShard begins to read a shard, by its index or, where that is nil, by its own header.
func (o Options) openShard(indexed *mds.Shard, r io.Reader) (samples *mds.Reader, c mdsColumns, err error) {
	if indexed == nil {
		if samples, err = mds.OpenShard(r); err != nil {
			return nil, c, err
		}
		c, err = o.mdsColumns(samples.Shard())
		samples.Want(c.want, o.MaxDocument)
		return samples, c, err
	}
	if c, err = o.mdsColumns(*indexed); err != nil {
		return nil, c, err
	}
	if r, err = unshard(*indexed, r); err != nil {
		return nil, c, err
	}
	samples, err = mds.NewReader(r, *indexed, c.want, o.MaxDocument)
	return samples, c, err
}

// rawShard reports whether a compressed shard without an index has the same shard beside it as it is, which is read in its place.
func rawShard(name string) bool {
	raw, compressed := compression.TrimEnding(name)
	if !compressed {
		return false
	}
	_, err := os.Stat(raw)
	return err == nil
}

// unshard decompresses those shards whose compression open does not tell by its beginning. A shard is written in one piece, so it has no more than its index says.
func unshard(s mds.Shard, r io.Reader) (io.Reader, error) {
	switch s.Codec() {
	case "br":
		return brotli.NewReader(r), nil
	case "snappy":
		packed, err := io.ReadAll(io.LimitReader(r, s.Zip.Bytes+1))
		if err != nil {
			return nil, err
		}
		if n, err := snappy.DecodedLen(packed); err != nil || int64(n) != s.Raw.Bytes {
			return nil, compression.Explain("snappy", errors.Join(err, fmt.Errorf("%d bytes, its index says %d", n, s.Raw.Bytes)))
		}
		data, err := snappy.Decode(nil, packed)
		if err != nil {
			return nil, compression.Explain("snappy", err)
		}
		return bytes.NewReader(data), nil
	}
	return r, nil
}

// mdsColumns are the places of the columns that are read; -1 for those that are not there.
type mdsColumns struct {
	shard mds.Shard
	want  []bool
	at    map[string]int
}

func (o Options) mdsColumns(s mds.Shard) (mdsColumns, error) {
	c := mdsColumns{shard: s, want: make([]bool, len(s.Names)), at: map[string]int{}}
	if err := o.checkUnique(s.Names); err != nil {
		return c, err
	}
	for _, name := range []string{o.TextField, o.IDField, "id", "path", "meta", "url"} {
		at := s.Column(name)
		if at >= 0 {
			c.at[name], c.want[at] = at, true
		} else if name != "" && (name == o.TextField || name == o.IDField) {
			return c, o.missingColumn(name, s.Names)
		}
	}
	encoding := s.Encodings[c.at[o.TextField]]
	switch {
	case !o.Tokens && encoding != "str" && encoding != "bytes" && encoding != "json":
		return c, fmt.Errorf("column %q is %s: want text (token ids want --tokenizer)", o.TextField, encoding)
	case o.Tokens && encoding == "bytes" && o.TokenType.Size == 0:
		return c, fmt.Errorf("column %q is bytes: say with --token-type how ids lie in them, such as int64", o.TextField)
	case o.Tokens && encoding != "bytes" && encoding != "json" && !mds.IsArray(encoding):
		return c, fmt.Errorf("column %q is %s: want token ids", o.TextField, encoding)
	}
	for _, m := range o.Meta {
		at := s.Column(m.Column)
		if at < 0 {
			return c, o.missingColumn(m.Column, s.Names)
		}
		c.at[m.Column], c.want[at] = at, true
	}
	return c, nil
}

func (o Options) mdsDocument(c mdsColumns, values []mds.Value) (d Document, err error) {
	at := c.at[o.TextField]
	if values[at].Size > o.MaxDocument {
		return d, o.tooLarge(int(values[at].Size))
	}
	if d.Data, err = o.mdsContent(c.shard.Encodings[at], values[at].Data); err != nil {
		return Document{}, bad("column %q: %w", o.TextField, err)
	}
	if int64(len(d.Data)) > o.MaxDocument {
		return Document{}, o.tooLarge(len(d.Data))
	}
	value := func(name string) json.RawMessage {
		at, ok := c.at[name]
		if !ok || values[at].Data == nil || values[at].Size > idMost {
			return nil
		}
		raw, _ := mds.JSON(c.shard.Encodings[at], values[at].Data) // what is no JSON names nothing
		return raw
	}
	d.name(func(name string) string { return label(value(name)) }, label(inner(value("meta")).value("path")))
	if d.Meta, err = o.metaOf(func(name string) (json.RawMessage, error) {
		at := c.at[name]
		if values[at].Data == nil {
			return nil, fmt.Errorf("a value of %d bytes", values[at].Size)
		}
		return mds.JSON(c.shard.Encodings[at], values[at].Data)
	}); err != nil {
		return Document{}, err
	}
	if o.IDField == "" {
		return d, nil
	}
	if d.ID, err = id(value(o.IDField)); err != nil {
		return Document{}, bad("column %q: %w", o.IDField, err)
	}
	return d, o.checkID(len(d.ID))
}

// mdsContent is a document of a value. It does not share its memory.
func (o Options) mdsContent(encoding string, data []byte) ([]byte, error) {
	if encoding == "json" {
		if _, err := mds.JSON(encoding, data); err != nil {
			return nil, err
		}
	}
	switch {
	case encoding == "json" && o.Tokens:
		return tokens(data)
	case encoding == "json":
		return text(data)
	case !o.Tokens && !utf8.Valid(data):
		return nil, errors.New("not valid UTF-8")
	case !o.Tokens:
		return bytes.Clone(data), nil
	}
	typ := o.TokenType
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
		return nil, fmt.Errorf("%d bytes are no whole number of %s", len(data), typ.Name)
	}
	return typ.Append(make([]byte, 0, 4*(len(data)/typ.Size)), data)
}
