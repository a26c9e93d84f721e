package definition

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	hf "github.com/sugarme/tokenizer"

	"loaderd/tokenizer/internal/fingerprint"
	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/merge"
)

// modelName matches the name of a model, organization/model, but no path of a file.
var modelName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[\w.-]*[\w-]$`)

// RankOptions specify what a rank file does not contain.
type RankOptions struct {
	Pattern       string   // the name of a family or a regular expression
	SpecialTokens []string // TOKEN or TOKEN=ID; without an id a token has the one after the last
}

// checkUnset returns an error if options for rank files are set.
func (o RankOptions) checkUnset() error {
	if o.Pattern != "" || len(o.SpecialTokens) > 0 {
		return errors.New("a pattern and special tokens can be chosen for a rank file only: this one has its own")
	}
	return nil
}

// Read reads the definition of a built-in name or of a file.
func Read(nameOrFile string, o RankOptions) (*Definition, error) {
	if slices.Contains(Builtin(), nameOrFile) {
		if err := o.checkUnset(); err != nil {
			return nil, err
		}
		return builtinDefinition(nameOrFile)
	}
	return fileDefinition(nameOrFile, o)
}

func fileDefinition(path string, o RankOptions) (*Definition, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && modelName.MatchString(path) {
		return nil, fmt.Errorf("no such file. If it is a model of a hub: models are not fetched; give the path of the "+
			"tokenizer.json that belongs to it, or a built-in name %v", Builtin())
	}
	if err != nil {
		return nil, fmt.Errorf("neither a built-in name %v nor a readable file: %w", Builtin(), err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.New("a folder: give the path of the tokenizer.json or tokenizer.model in it")
	}
	in := bufio.NewReaderSize(f, 1<<16)
	if err := foreignFormatError(in); err != nil {
		return nil, err
	}
	if isSentencePiece(in) {
		folder := ""
		if filepath.Base(path) == "tokenizer.model" {
			folder = filepath.Dir(path)
		}
		if err := o.checkUnset(); err != nil {
			return nil, err
		}
		return readSentencePiece(in, folder)
	}
	if isJSON(in) {
		if err := o.checkUnset(); err != nil {
			return nil, err
		}
		d, err := FromJSON(in)
		if err == nil && filepath.Base(path) == "tokenizer.json" { // the folder of another file may contain several models
			d.End, err = readEndConfig(filepath.Dir(path))
		}
		return d, err
	}
	return FromRanks(in, o)
}

// isJSON distinguishes a tokenizer.json from a rank file by its first character.
func isJSON(in *bufio.Reader) bool {
	for n := 1; ; n++ {
		start, err := in.Peek(n)
		if err != nil {
			return len(start) == 0 // empty or only white space: treat it as JSON, which reports an error
		}
		if c := start[n-1]; !strings.ContainsRune(" \t\r\n", rune(c)) {
			return strings.ContainsRune("{[\xef", rune(c))
		}
	}
}

// FromJSON reads a tokenizer.json.
func FromJSON(in io.Reader) (*Definition, error) {
	c, err := format.ReadConfig(in)
	if err != nil {
		return nil, fmt.Errorf("read tokenizer.json: %w", err)
	}
	err = errors.Join(format.CheckFields("pre_tokenizer", c.PreTokenizer),
		format.CheckFields("post_processor", c.PostProcessor), format.CheckFields("decoder", c.Decoder))
	if err != nil {
		return nil, err
	}
	return newDefinition(c, nil)
}

// modelType returns the type of a model, of a file older than the field from its other fields.
func modelType(m map[string]any) string {
	if t, ok := m["type"]; ok {
		name, _ := t.(string)
		return name
	}
	_, isPieces := m["vocab"].([]format.Piece)
	_, hasMerges := m["merges"]
	_, hasLength := m["max_input_chars_per_word"]
	switch {
	case hasMerges:
		return "BPE"
	case isPieces:
		return "Unigram"
	case hasLength:
		return "WordPiece"
	}
	return "BPE" // whose reader reports what is missing
}

// newDefinition returns the definition of a configuration. If known is not nil, it has the merges of the
// configuration, and each of them is done for some text.
func newDefinition(c *hf.Config, known []merge.Step) (*Definition, error) {
	if c.Truncation != nil {
		return nil, format.UnsupportedError("truncation", c.Truncation)
	}
	if c.Padding != nil {
		return nil, format.UnsupportedError("padding", c.Padding)
	}
	kind := modelType(c.Model)
	if kind != "BPE" && kind != "WordPiece" && kind != "Unigram" { // checked first, because nothing else matters then
		return nil, format.UnsupportedError("model type", c.Model["type"])
	}
	d := &Definition{}
	if err := d.readNormalizer(c.Normalizer); err != nil {
		return nil, err
	}
	var steps []merge.Step
	var err error
	switch kind {
	case "WordPiece":
		err = d.readWordPiece(c)
	case "Unigram":
		err = d.readUnigram(c)
	default:
		if err = d.readPreTokenizer(c.PreTokenizer); err == nil {
			steps, err = d.readModel(c.Model, known)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := d.readAdded(c.AddedTokens); err != nil {
		return nil, err
	}
	if known != nil {
		d.Merges.SetAllReachable()
	}
	d.Template = readTemplate(c.PostProcessor)
	d.Decoder = readDecoder(c.Decoder)
	d.Identity = fingerprint.Identify(c, steps, known != nil)
	return d, nil
}
