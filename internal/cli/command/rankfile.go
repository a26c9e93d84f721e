package command

import (
	"github.com/spf13/pflag"

	"loaderd/tokenizer"
)

// RegisterRankFile adds the flags for settings that a rank file does not contain.
func RegisterRankFile(f *pflag.FlagSet, o *tokenizer.Options) {
	f.StringVar(&o.Pattern, "pattern", "",
		"word pattern of a rank file: cl100k, llama3, o200k, qwen, kimi, ... or a regular expression")
	f.StringArrayVar(&o.SpecialTokens, "special-token", nil,
		"special `TOKEN=ID` of a rank file, or TOKEN for the id after the previous one; may be repeated")
}
