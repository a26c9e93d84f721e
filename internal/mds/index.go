// Package mds reads and writes samples in the format of MosaicML's Streaming: shards, and an index (index.json) that
// names them and their columns. For any input, memory is bounded by a sample's values and the offsets of a shard's
// samples. Data that cannot be read is an error.
package mds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// IndexName is the name of the index in the folder of its shards.
const IndexName = "index.json"

const (
	version = 2
	format  = "mds"
	// indexMost bounds an index, in which a shard has half a kilobyte.
	indexMost = 256 << 20
)

// Index lists the shards of a folder, in order.
type Index struct {
	Version int     `json:"version"`
	Shards  []Shard `json:"shards"`
}

// Shard is a file of samples.
type Shard struct {
	Version     int      `json:"version"`
	Format      string   `json:"format"`
	Names       []string `json:"column_names"`
	Encodings   []string `json:"column_encodings"`
	Sizes       []*int64 `json:"column_sizes"` // of an encoded value in bytes; nil: it varies
	Compression *string  `json:"compression"`  // with a level, as in zstd:7
	Hashes      []string `json:"hashes"`
	SizeLimit   *int64   `json:"size_limit"`
	Samples     int64    `json:"samples"`
	Raw         File     `json:"raw_data"`
	Zip         *File    `json:"zip_data"`
}

// File is an uncompressed or compressed shard. Name is relative to the index.
type File struct {
	Name   string            `json:"basename"`
	Bytes  int64             `json:"bytes"`
	Hashes map[string]string `json:"hashes"`
}

// Codec returns the name of the compression of Zip, empty for none.
func (s Shard) Codec() string {
	if s.Compression == nil || s.Zip == nil {
		return ""
	}
	name, _, _ := strings.Cut(*s.Compression, ":")
	return name
}

// Column returns the index of a column, -1 if it does not exist.
func (s Shard) Column(name string) int {
	for i, n := range s.Names {
		if n == name {
			return i
		}
	}
	return -1
}

// LooksLikeIndex reports whether a file named index.json starts like an index of shards, unlike the many other files
// with that name.
func LooksLikeIndex(head []byte) bool {
	head = bytes.TrimLeft(head, " \t\r\n")
	return bytes.HasPrefix(head, []byte("{")) && bytes.Contains(head, []byte(`"shards"`)) &&
		bytes.Contains(head, []byte(`"column_encodings"`))
}

// ReadIndex reads an index and validates the fields that are needed to read its shards.
func ReadIndex(r io.Reader) (Index, error) {
	var index Index
	data, err := io.ReadAll(io.LimitReader(r, indexMost+1))
	if err != nil {
		return index, err
	}
	if len(data) > indexMost {
		return index, fmt.Errorf("the index has more than %d bytes", indexMost)
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return index, fmt.Errorf("the index is no JSON of MDS: %w", err)
	}
	if index.Version != version {
		return index, fmt.Errorf("the index has version %d, want %d", index.Version, version)
	}
	for i, s := range index.Shards {
		if err := s.check(); err != nil {
			return index, fmt.Errorf("shard %d of the index: %w", i, err)
		}
	}
	return index, nil
}

func (s Shard) check() error {
	switch {
	case s.Format != format:
		return fmt.Errorf("its format is %q: want %s, other formats of Streaming are not read", s.Format, format)
	case s.Version != version:
		return fmt.Errorf("it has version %d, want %d", s.Version, version)
	case len(s.Names) == 0 || len(s.Encodings) != len(s.Names) || len(s.Sizes) != len(s.Names):
		return fmt.Errorf("it has %d names, %d encodings and %d sizes of columns", len(s.Names), len(s.Encodings),
			len(s.Sizes))
	case s.Samples < 0 || s.Samples > samplesMost:
		return fmt.Errorf("its index states %d samples: at most %d are read from one shard", s.Samples, samplesMost)
	case s.Compression != nil && s.Zip == nil:
		return errors.New("it is compressed, and no compressed file is named")
	}
	for i, n := range s.Sizes {
		if n != nil && (*n < 0 || *n > shardMost) {
			return fmt.Errorf("column %q has values of %d bytes", s.Names[i], *n)
		}
	}
	files := []File{s.Raw}
	if s.Zip != nil {
		files = append(files, *s.Zip)
	}
	for _, f := range files {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			return fmt.Errorf("it names the file %q, which is not below the index", f.Name)
		}
		if f.Bytes < 0 || f.Bytes > shardMost {
			return fmt.Errorf("the index states %d bytes for %s", f.Bytes, f.Name)
		}
	}
	return nil
}
