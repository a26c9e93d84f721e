package main

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"loaderd/internal/relatedness"
	"loaderd/tokenizer"
)

// suffixes are the files that are read.
var suffixes = []string{".go", ".c", ".h", ".py", ".s", ".md", ".rst", ".txt", ".html"}

// sections reads the text files below folders and cuts each into sections of about 1,000 tokens, at empty lines, in random order.
// At most most bytes are read of each folder, of files chosen at random. With a chunk above 0 all sections have exactly so many tokens.
func sections(m *tokenizer.Model, folders []string, most int64, chunk int) ([]relatedness.Document, error) {
	r := rand.New(rand.NewPCG(1, 2))
	e := m.NewEncoder()
	var documents []relatedness.Document
	for _, folder := range folders {
		var files []string
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && slices.Contains(suffixes, filepath.Ext(path)) {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		// whole folders stay together: related documents are what this is about
		parents := map[string][]string{}
		var names []string
		for _, f := range files {
			dir := filepath.Dir(f)
			if parents[dir] == nil {
				names = append(names, dir)
			}
			parents[dir] = append(parents[dir], f)
		}
		r.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
		left := most
		for _, dir := range names {
			for _, f := range parents[dir] {
				text, err := os.ReadFile(f)
				if err != nil || !utf8.Valid(text) || left < 0 {
					continue
				}
				left -= int64(len(text))
				rel, err := filepath.Rel(folder, f)
				if err != nil {
					return nil, err
				}
				name := strings.ReplaceAll(filepath.Join(filepath.Base(folder), rel), string(filepath.Separator), "/")
				if chunk > 0 {
					for ids := e.Encode(nil, text); len(ids) >= chunk; ids = ids[chunk:] {
						documents = append(documents, relatedness.Document{IDs: ids[:chunk:chunk], Path: name})
					}
					continue
				}
				for len(text) > 0 {
					var s []byte
					s, text = section(text, 400+int(r.ExpFloat64()*1300))
					documents = append(documents, relatedness.Document{IDs: append(e.Encode(nil, s), 50256), Path: name})
				}
			}
		}
	}
	r.Shuffle(len(documents), func(i, k int) { documents[i], documents[k] = documents[k], documents[i] })
	return documents, nil
}

// section cuts text at the first empty line behind so many bytes.
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
