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
		Short: "Convert JSON lines of text to token ids, or back",
		Long: `Convert JSON lines of text to JSON lines of token ids, in order.

Each input line is an object with "text" (a string) or "base64" (raw bytes,
which need not be UTF-8). It usually has an "id" (any JSON value), which is
copied to the output. Each output line is {"id", "ids"}. No end-of-document
token is added. Invalid UTF-8 counts as U+FFFD. The input is FILE, or standard
input without FILE or if FILE is "-".

The tokenizer is a built-in name (gpt2, cl100k_base, o200k_base), a
tokenizer.json, a tokenizer.model of SentencePiece, or a rank file (.tiktoken).
A rank file that loaderd does not recognize also needs its --pattern and
--special-token. The ids are those of Hugging Face tokenizers, SentencePiece and
tiktoken. A file with a feature that has not been compared with them is
rejected, and the error names the feature.

A line that cannot be read causes an error with its line number. The lines
before it have been written.`,
		Example: `  echo '{"id": 1, "text": "Hello, world"}' | loaderd tokenize --tokenizer gpt2
  loaderd tokenize --tokenizer ./tokenizer.json documents.jsonl > ids.jsonl
  loaderd tokenize --tokenizer gpt2 documents.jsonl | loaderd tokenize \
      --tokenizer gpt2 --decode`,
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
				const advice = "rank file has no special tokens: name them with --special-token"
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
	cmd.Flags().StringVar(&name, "tokenizer", "", "built-in name, tokenizer.json, tokenizer.model or rank file")
	command.RegisterRankFile(cmd.Flags(), &options)
	cmd.Flags().BoolVar(&decode, "decode", false,
		`convert {"id", "ids"} to {"id", "text"}, with "base64" in place of text that is not UTF-8`)
	cmd.Flags().BoolVar(&fingerprint, "fingerprint", false,
		"print the tokenizer's fingerprint, which pre-tokenized documents must carry, and exit")
	cmd.Flags().BoolVar(&options.SpecialAsText, "special-as-text", false,
		"encode special tokens in a text, such as <|endoftext|>, as plain text")
	cmd.Flags().BoolVar(&options.AddSpecialTokens, "add-special-tokens", false,
		"add the tokens (BOS, EOS) that the file's post_processor defines around each text")
	cobra.CheckErr(cmd.MarkFlagRequired("tokenizer"))
	return cmd
}
