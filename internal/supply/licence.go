package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

var licenceFile = regexp.MustCompile(`(?i)^((un)?licen[cs]e|copying|notice)`)

// known compares texts with those of all licences that SPDX lists.
var known = sync.OnceValues(assets.DefaultClassifier)

// unlisted are names that the classifier has for licences that SPDX calls otherwise.
var unlisted = map[string]string{"GNU-All-permissive-Copying-License": "FSFAP"}

// licenceFiles returns the texts of the licence files of a folder.
func licenceFiles(folder string) (texts []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() || !licenceFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}

// licenceOf names all licences whose texts stand in the licence files of a folder, as an SPDX expression. It is empty where there are none: no such file,
// or none with the text of a licence that is known.
func licenceOf(folder string) (string, error) {
	files, err := licenceFiles(folder)
	if err != nil {
		return "", err
	}
	texts, err := known()
	if err != nil {
		return "", fmt.Errorf("load the texts of licences: %w", err)
	}
	var names []string
	for _, text := range files {
		names = append(names, named(texts, []byte(text))...)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " AND "), nil
}

func named(texts *classifier.Classifier, text []byte) (names []string) {
	for _, m := range texts.Match(text).Matches {
		if m.MatchType == "Copyright" {
			continue
		}
		name := m.Name
		if spdx, found := unlisted[name]; found {
			name = spdx
		}
		names = append(names, name)
	}
	return names
}
