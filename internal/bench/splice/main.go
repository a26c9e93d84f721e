// Splice measures packing related documents: how related neighbours are, how bursty rows, what is padded, and how fast it is, against
// example packing on the same documents. It reads the text files below the folders that it is given and cuts them into sections of about
// 1,000 tokens, in random order, or, with -chunk, into chunks of exactly so many. With -hand it writes a pool down, for other programs
// that answer the same questions.
package main

import (
	"flag"
	"fmt"
	"os"

	"loaderd/packonline/related"
	"loaderd/tokenizer"
)

func main() {
	length := flag.Int("length", 8192, "row length in tokens")
	pool := flag.Int("pool", 4096, "pieces")
	most := flag.Int64("bytes", 64<<20, "most bytes of text from each folder")
	chunk := flag.Int("chunk", 0, "cut each file into chunks of this many tokens; what is left behind the last is left out")
	only := flag.String("only", "", "measure this variant alone, as the table names it")
	hand := flag.String("hand", "", "write a pool to this folder")
	asJSON := flag.Bool("json", false, "print how fast bucket and splice with bm25 are, and nothing else, as JSON")
	figure := flag.String("figure", "", "draw the exponents of rows into this SVG file")
	flag.Parse()
	if *asJSON {
		if err := speeds(os.Stdout, flag.Args(), *most, *length, *pool); err != nil {
			fmt.Fprintln(os.Stderr, "splice:", err)
			os.Exit(1)
		}
		return
	}
	if err := measure(os.Stdout, flag.Args(), *most, *chunk, *length, *pool, *only, *hand, *figure); err != nil {
		fmt.Fprintln(os.Stderr, "splice:", err)
		os.Exit(1)
	}
}

func measure(w *os.File, folders []string, most int64, chunk, length, pool int, only, hand, figure string) error {
	c, err := read(folders, most, chunk, pool)
	if err != nil {
		return err
	}
	if err := c.hint(related.Retrievers...); err != nil {
		return err
	}
	if hand != "" {
		return c.hand(hand, pool)
	}
	fmt.Fprintf(w, "\n%d sections of %d folders, %d tokens, mean %d\n", len(c.documents), len(folders), c.tokens, c.tokens/int64(len(c.documents)))
	figures, err := c.table(w, length, pool, only)
	if err != nil || figure == "" {
		return err
	}
	return drawFigure(figures, figure)
}

// read returns the documents below folders, enough of them for a pool.
func read(folders []string, most int64, chunk, pool int) (*corpus, error) {
	m, err := tokenizer.Load("gpt2", tokenizer.Options{})
	if err != nil {
		return nil, err
	}
	c := &corpus{}
	if c.documents, err = sections(m, folders, most, chunk); err != nil {
		return nil, err
	}
	for _, d := range c.documents {
		c.tokens += int64(len(d.IDs))
	}
	if len(c.documents) < 2*pool {
		return nil, fmt.Errorf("%d sections below %v: want folders with more text, at least %d", len(c.documents), folders, 2*pool)
	}
	return c, nil
}
