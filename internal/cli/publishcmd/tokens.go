package publishcmd

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"loaderd/internal/cli/command"
	"loaderd/internal/corpus"
	"loaderd/internal/daemon"
	"loaderd/internal/tokenfiles"
	"loaderd/tokenizer"
)

// tokensFlags are the flags for files of token ids.
type tokensFlags struct {
	tokenizer       string
	typ, end, begin string
	model           *tokenizer.Model // of tokenizer
}

func (f *tokensFlags) register(fl *pflag.FlagSet, fingerprint *string) {
	fl.StringVar(&f.tokenizer, "tokenizer", "",
		"documents are token ids of this tokenizer: built-in name, tokenizer.json, tokenizer.model or rank file")
	fl.StringVar(fingerprint, "tokenizer-fingerprint", "",
		"documents are token ids of the tokenizer with this fingerprint")
	fl.StringVar(&f.typ, "token-type", "",
		"type of ids in files or byte columns that do not define it: uint16, uint32, int64, ...")
	fl.StringVar(&f.end, "end-token", "",
		"`ID` that ends each document of a token file (default: the tokenizer's end of text)")
	fl.StringVar(&f.begin, "begin-token", "", "`ID` that begins each document of a token file")
}

// apply sets the format of the files and the fingerprint of the tokenizer that made them.
func (f *tokensFlags) apply(fl *pflag.FlagSet, o *corpus.Options, fingerprint *string) (err error) {
	if f.typ != "" {
		if o.TokenType, err = tokenfiles.TypeOf(f.typ); err != nil {
			return command.Usage(fmt.Errorf("--token-type: %w", err))
		}
	}
	for name, flag := range map[string]struct {
		text string
		id   **uint32
	}{"end-token": {f.end, &o.Boundaries.End}, "begin-token": {f.begin, &o.Boundaries.Begin}} {
		if flag.text == "" {
			continue
		}
		id, err := strconv.ParseUint(flag.text, 10, 31)
		if err != nil {
			return command.Usage(fmt.Errorf("--%s %q: want a token's id", name, flag.text))
		}
		at := uint32(id)
		*flag.id = &at
	}
	switch {
	case f.tokenizer == "" && fl.Changed("tokenizer"):
		return command.Usage(errors.New("--tokenizer is empty: want a name or a file"))
	case f.tokenizer != "" && *fingerprint != "":
		return command.Usage(errors.New("want --tokenizer or --tokenizer-fingerprint, not both"))
	case f.tokenizer != "":
		if f.model, err = daemon.LoadModel(f.tokenizer, tokenizer.Options{}); err != nil {
			return err
		}
		*fingerprint, o.Vocabulary = f.model.Fingerprint(), f.model.VocabSize()
		if end, ok := f.model.EndOfText(); ok && o.Boundaries == (tokenfiles.Boundaries{}) {
			id := uint32(end.ID)
			o.Boundaries.End = &id
		}
	}
	o.Tokens = *fingerprint != ""
	return nil
}
