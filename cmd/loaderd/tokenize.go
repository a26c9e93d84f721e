package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"loaderd/internal/daemon"
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
			model, err := daemon.Model(name, options)
			if err != nil {
				return err
			}
			if fingerprint {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), model.Fingerprint())
				return err
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
			convert := func() lineConverter { return encodeLine(model) }
			if decode {
				convert = func() lineConverter { return decodeLine(model) }
			}
			return convertLines(cmd.Context(), label, in, cmd.OutOrStdout(), convert)
		},
	}
	cmd.Flags().StringVar(&name, "tokenizer", "", "built-in name, tokenizer.json or rank file")
	registerRankFile(cmd.Flags(), &options)
	cmd.Flags().BoolVar(&decode, "decode", false, `the reverse: {"id", "ids"} in; {"id", "text"} out, "base64" where the bytes are not UTF-8`)
	cmd.Flags().BoolVar(&fingerprint, "fingerprint", false, "print the tokenizer's fingerprint, which documents that are already tokenized must carry, and stop")
	cmd.Flags().BoolVar(&options.SpecialAsText, "special-as-text", false, "encode special tokens such as <|endoftext|> that are written in a text as text")
	cmd.Flags().BoolVar(&options.AddSpecialTokens, "add-special-tokens", false, "add the tokens around each text that the file's post_processor asks for (BOS, EOS)")
	cobra.CheckErr(cmd.MarkFlagRequired("tokenizer"))
	return cmd
}

// registerRankFile adds the flags that say what a rank file does not.
func registerRankFile(f *pflag.FlagSet, o *tokenizer.Options) {
	f.StringVar(&o.Pattern, "pattern", "", "what cuts text into words, for a rank file: cl100k, llama3, o200k, qwen, kimi, ... or a regular expression")
	f.StringArrayVar(&o.SpecialTokens, "special-token", nil, "special `TOKEN=ID` of a rank file, or TOKEN for the id behind the one before; may be repeated")
}

// lineConverter appends the line out for a line in.
type lineConverter func(out, line []byte) ([]byte, error)

// textLine is a line with a document.
type textLine struct {
	ID     json.RawMessage `json:"id"`
	Text   *string         `json:"text"`
	Base64 *string         `json:"base64"`
}

// idsLine is a line with its tokens.
type idsLine struct {
	ID  json.RawMessage `json:"id"`
	IDs *[]int32        `json:"ids"`
}

func encodeLine(model *tokenizer.Model) lineConverter {
	encoder := model.NewEncoder()
	var ids []int32
	return func(out, line []byte) ([]byte, error) {
		var doc textLine
		if err := json.Unmarshal(line, &doc); err != nil {
			return out, badLine(err, `{"id", "text"} or {"id", "base64"}`)
		}
		var text []byte
		switch {
		case doc.Text != nil && doc.Base64 == nil:
			text = []byte(*doc.Text)
		case doc.Base64 != nil && doc.Text == nil:
			var err error
			if text, err = base64.StdEncoding.DecodeString(*doc.Base64); err != nil {
				return out, fmt.Errorf("decode base64: %w", err)
			}
		default:
			return out, errors.New(`want either "text" or "base64"`)
		}
		ids = encoder.Encode(ids[:0], text)
		out = appendID(out, doc.ID)
		out = append(out, `"ids":[`...)
		for i, id := range ids {
			if i > 0 {
				out = append(out, ',')
			}
			out = strconv.AppendInt(out, int64(id), 10)
		}
		return append(out, "]}\n"...), nil
	}
}

// badLine says what is wrong with a line of JSON, in JSON's terms.
func badLine(err error, want string) error {
	var bad *json.UnmarshalTypeError
	if !errors.As(err, &bad) {
		return fmt.Errorf("want %s: %w", want, err)
	}
	is, _, _ := strings.Cut(bad.Value, " ") // "number 1.5"
	switch {
	case bad.Field == "":
		return fmt.Errorf("the line is %s, want an object: %s", article(is), want)
	case bad.Type.Kind() == reflect.String:
		return fmt.Errorf("%q is %s, want a string", bad.Field, article(is))
	}
	verb, what := "is", article(is)
	if bad.Type.Kind() != reflect.Slice { // an element
		verb = "holds"
		if _, number, ok := strings.Cut(bad.Value, " "); ok {
			what = number
		}
	}
	list := "token ids"
	if t := bad.Type; t.Kind() == reflect.Float32 || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Float32 {
		list = "numbers"
	}
	return fmt.Errorf("%q %s %s, want a list of %s", bad.Field, verb, what, list)
}

func article(noun string) string {
	switch noun {
	case "array", "object", "embedding":
		return "an " + noun
	case "bool":
		return "true or false"
	}
	return "a " + noun
}

func decodeLine(model *tokenizer.Model) lineConverter {
	return func(out, line []byte) ([]byte, error) {
		var doc idsLine
		if err := json.Unmarshal(line, &doc); err != nil {
			return out, badLine(err, `{"id", "ids"}`)
		}
		if doc.IDs == nil {
			return out, errors.New(`want "ids", a list of integers`)
		}
		text, err := model.Decode(nil, *doc.IDs)
		if err != nil {
			return out, err
		}
		field, value := "base64", base64.StdEncoding.EncodeToString(text)
		if utf8.Valid(text) {
			field, value = "text", string(text)
		}
		var quoted bytes.Buffer
		enc := json.NewEncoder(&quoted)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(value); err != nil {
			return out, fmt.Errorf("write %s: %w", field, err)
		}
		out = append(appendID(out, doc.ID), `"`+field+`":`...)
		return append(append(out, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...), "}\n"...), nil
	}
}

// appendID starts a line out.
func appendID(out []byte, id json.RawMessage) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	return append(append(append(out, `{"id":`...), id...), ',')
}

// block is some lines on their way: in, then out with the error that ended them.
type block struct {
	first int // number of the first line, from 1
	lines [][]byte
	done  chan struct{}
	out   []byte
	err   error
}

const (
	blockLines = 256
	blockBytes = 1 << 20
)

// convertLines converts lines on all processors and writes them in order. What is under way is bounded by a few blocks
// a processor, each of blockBytes and its last line.
func convertLines(ctx context.Context, label string, in io.Reader, out io.Writer, newConverter func() lineConverter) error {
	workers := runtime.GOMAXPROCS(0)
	work := make(chan *block)
	order := make(chan *block, 2*workers)
	group, ctx := errgroup.WithContext(ctx)
	read := make(chan error, 1)
	go func() { // nothing waits for it: reading can not be interrupted
		err := readBlocks(in, func(b *block) error {
			for _, c := range []chan *block{order, work} {
				select {
				case c <- b:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
		read <- err
		close(work)
		close(order)
	}()
	group.Go(func() error {
		select {
		case err := <-read:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	for range workers {
		group.Go(func() error {
			convert := newConverter()
			for {
				select {
				case b, ok := <-work:
					if !ok {
						return nil
					}
					b.convert(label, convert)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
	}
	group.Go(func() error {
		w := bufio.NewWriterSize(out, 1<<16)
		for {
			var b *block
			var more bool
			select {
			case b, more = <-order:
			case <-ctx.Done():
				return ctx.Err()
			}
			if !more {
				return nil
			}
			select {
			case <-b.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			if _, err := w.Write(b.out); err != nil {
				return fmt.Errorf("write output: %w", err)
			}
			if b.err != nil {
				return errors.Join(b.err, w.Flush())
			}
			if len(order) == 0 { // the input may pause here
				if err := w.Flush(); err != nil {
					return fmt.Errorf("write output: %w", err)
				}
			}
		}
	})
	return group.Wait()
}

// readBlocks cuts the input into blocks of whole lines. It does not keep lines back where it may have to wait for the next one.
func readBlocks(in io.Reader, send func(*block) error) error {
	r := bufio.NewReaderSize(in, blockBytes)
	b, size := &block{first: 1, done: make(chan struct{})}, 0
	for {
		line, err := r.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("read input: %w", err)
		}
		last := err == io.EOF
		if len(line) > 0 {
			b.lines = append(b.lines, line)
			size += len(line)
		}
		full := last || size >= blockBytes || len(b.lines) >= blockLines
		if !full {
			behind, _ := r.Peek(r.Buffered())
			full = bytes.IndexByte(behind, '\n') < 0
		}
		if len(b.lines) > 0 && full {
			next := b.first + len(b.lines)
			if err := send(b); err != nil { // from here on b is the workers'
				return err
			}
			b, size = &block{first: next, done: make(chan struct{})}, 0
		}
		if last {
			return nil
		}
	}
}

func (b *block) convert(label string, convert lineConverter) {
	defer close(b.done)
	for i, line := range b.lines {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if b.out, b.err = convert(b.out, line); b.err != nil {
			b.err = fmt.Errorf("%s, line %d: %w", label, b.first+i, b.err)
			return
		}
	}
	b.lines = nil
}
