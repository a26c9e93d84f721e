package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"loaderd/internal/cli/command"
	"loaderd/internal/daemon"
	"loaderd/internal/jsonlines"
	"loaderd/tokenizer"
)

func newTokenizeCmd() *cobra.Command {
	var name string
	var decode, fingerprint bool
	var options tokenizer.Options
	cmd := &cobra.Command{
		Use:   "tokenize --tokenizer NAME|FILE [FILE]",
		Short: "Turn JSON lines of text into JSON lines of token ids, or back",
		Long: `Turn JSON lines of text into JSON lines of token ids, in order.

Each line in is an object with "text" (a string) or "base64" (raw bytes, which need not be UTF-8), and usually "id"
(any JSON value, passed through). Each line out is {"id", "ids"}. No end-of-document token is added; invalid UTF-8
counts as U+FFFD. The input is FILE, or standard input when there is none or it is "-".

The tokenizer is a built-in name (gpt2, cl100k_base, o200k_base), a tokenizer.json file of BPE, or a rank file (.tiktoken) with
the pattern and special tokens that belong to it where it is not a known one. The ids are those of Hugging Face tokenizers and
tiktoken; a file that asks for something on which that has not been checked is refused, and the error names it.

A line that can not be read is an error that names its number; the lines before it have been written.`,
		Example: `  echo '{"id": 1, "text": "Hello, world"}' | loaderd tokenize --tokenizer gpt2
  loaderd tokenize --tokenizer ./tokenizer.json documents.jsonl > ids.jsonl
  loaderd tokenize --tokenizer gpt2 documents.jsonl | loaderd tokenize --tokenizer gpt2 --decode`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			model, err := daemon.LoadModel(name, options)
			if err != nil {
				return err
			}
			if fingerprint {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), model.Fingerprint())
				return err
			}
			if specials, _, ok := model.RankFileInfo(); ok && specials == 0 {
				const advice = "rank file without special tokens: name them with --special-token"
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", name, advice)
			}
			in, label := cmd.InOrStdin(), "standard input"
			if len(args) == 1 && args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return fmt.Errorf("open input: %w", err)
				}
				defer f.Close()
				in, label = f, args[0]
			}
			convert := jsonlines.Encode
			if decode {
				convert = jsonlines.Decode
			}
			return jsonlines.Convert(cmd.Context(), label, in, cmd.OutOrStdout(), func() jsonlines.Converter {
				return convert(model)
			})
		},
	}
	cmd.Flags().StringVar(&name, "tokenizer", "", "built-in name, tokenizer.json or rank file")
	command.RegisterRankFile(cmd.Flags(), &options)
	cmd.Flags().BoolVar(&decode, "decode", false,
		`the reverse: {"id", "ids"} in; {"id", "text"} out, "base64" where the bytes are not UTF-8`)
	cmd.Flags().BoolVar(&fingerprint, "fingerprint", false,
		"print the tokenizer's fingerprint, which documents that are already tokenized must carry, and stop")
	cmd.Flags().BoolVar(&options.SpecialAsText, "special-as-text", false,
		"encode special tokens such as <|endoftext|> that are written in a text as text")
	cmd.Flags().BoolVar(&options.AddSpecialTokens, "add-special-tokens", false,
		"add the tokens around each text that the file's post_processor asks for (BOS, EOS)")
	cobra.CheckErr(cmd.MarkFlagRequired("tokenizer"))
	return cmd
}
