package main

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"loaderd/internal/relatedness"
	"loaderd/tokenizer"
)

// suffixes are the suffixes of the files that are read.
var suffixes = []string{".go", ".c", ".h", ".py", ".s", ".md", ".rst", ".txt", ".html"}

// sections reads the text files below folders and cuts each into sections of about 1,000 tokens, at empty lines, in
// random order. It reads at most most bytes per folder, from files chosen at random. If chunk is above 0, all
// sections have exactly chunk tokens.
func sections(m *tokenizer.Model, folders []string, most int64, chunk int) ([]relatedness.Document, error) {
	c := cutter{r: rand.New(rand.NewPCG(1, 2)), encoder: m.NewEncoder(), chunk: chunk}
	for _, folder := range folders {
		if err := c.readFolder(folder, most); err != nil {
			return nil, err
		}
	}
	c.r.Shuffle(len(c.documents), func(i, k int) { c.documents[i], c.documents[k] = c.documents[k], c.documents[i] })
	return c.documents, nil
}

// cutter cuts files into documents.
type cutter struct {
	r         *rand.Rand
	encoder   *tokenizer.Encoder
	chunk     int // tokens of a document, 0 for sections
	documents []relatedness.Document
}

// readFolder cuts the text files below a folder, until most bytes are read.
func (c *cutter) readFolder(folder string, most int64) error {
	files, err := textFiles(folder)
	if err != nil {
		return err
	}
	for _, f := range c.byFolder(files) {
		text, err := os.ReadFile(f)
		if err != nil || !utf8.Valid(text) {
			continue
		}
		rel, err := filepath.Rel(folder, f)
		if err != nil {
			return err
		}
		c.cut(text, filepath.ToSlash(filepath.Join(filepath.Base(folder), rel)))
		if most -= int64(len(text)); most < 0 {
			break
		}
	}
	return nil
}

// textFiles returns the paths of the text files below a folder.
func textFiles(folder string) (files []string, err error) {
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && slices.Contains(suffixes, filepath.Ext(path)) {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// byFolder orders files by folders, and the folders at random. Whole folders stay together, because their documents
// are related.
func (c *cutter) byFolder(files []string) (ordered []string) {
	in := map[string][]string{}
	var folders []string
	for _, f := range files {
		folder := filepath.Dir(f)
		if in[folder] == nil {
			folders = append(folders, folder)
		}
		in[folder] = append(in[folder], f)
	}
	c.r.Shuffle(len(folders), func(i, k int) { folders[i], folders[k] = folders[k], folders[i] })
	for _, folder := range folders {
		ordered = append(ordered, in[folder]...)
	}
	return ordered
}

// cut cuts the text of a file. A section ends with the end-of-text token. The remainder after the last chunk is
// dropped.
func (c *cutter) cut(text []byte, path string) {
	if c.chunk > 0 {
		for ids := c.encoder.Encode(nil, text); len(ids) >= c.chunk; ids = ids[c.chunk:] {
			c.documents = append(c.documents, relatedness.Document{IDs: ids[:c.chunk:c.chunk], Path: path})
		}
		return
	}
	for len(text) > 0 {
		var s []byte
		s, text = section(text, 400+int(c.r.ExpFloat64()*1300))
		c.documents = append(c.documents, relatedness.Document{IDs: append(c.encoder.Encode(nil, s), 50256), Path: path})
	}
}

// section cuts text at the first empty line after bytesWanted bytes.
func section(text []byte, bytesWanted int) (head, rest []byte) {
	if len(text) <= bytesWanted {
		return text, nil
	}
	i := bytes.Index(text[bytesWanted:], []byte("\n\n"))
	if i < 0 {
		return text, nil
	}
	return text[:bytesWanted+i+2], text[bytesWanted+i+2:]
}
