// Splice measures packing of related documents, compared with example packing of the same documents: how related
// neighbours are, how bursty rows are, the padding, and the speed. It reads the text files below the given folders
// and cuts them into sections of about 1,000 tokens, in random order, or, with -chunk, into chunks of exactly that
// many. With -record it writes the measurements as JSON. With -hand it writes a pool of each size, for other programs
// that answer the same queries.
package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"loaderd/bench/record"
	"loaderd/packonline/similarity"
	"loaderd/tokenizer"
)

// settings are the flags.
type settings struct {
	length, chunk              int
	pools                      sizes
	most                       int64
	only, hand, figure, record string
}

// sizes is a flag of comma-separated numbers.
type sizes []int

func (s *sizes) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(*s)), " ", ","), "[]")
}

func (s *sizes) Set(text string) error {
	*s = nil
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		if n < 1 {
			return fmt.Errorf("size %d: want at least 1", n)
		}
		*s = append(*s, n)
	}
	return nil
}

func main() {
	s := settings{pools: sizes{4096}}
	flag.IntVar(&s.length, "length", 8192, "row length in tokens")
	flag.Var(&s.pools, "pool", "pieces; several sizes with commas between them are measured one after the other")
	flag.Int64Var(&s.most, "bytes", 64<<20, "most bytes of text from each folder")
	flag.IntVar(&s.chunk, "chunk", 0,
		"cut each file into chunks of this many tokens; what is left behind the last is left out")
	flag.StringVar(&s.only, "only", "", "measure this variant alone, as the table names it")
	flag.StringVar(&s.hand, "hand", "", "write a pool of each size to a folder below this one")
	flag.StringVar(&s.record, "record", "", "write what was measured to this JSON file")
	flag.StringVar(&s.figure, "figure", "", "draw the exponents of rows with the last pool into this SVG file")
	asJSON := flag.Bool("json", false, "print how fast bucket and splice with bm25 are, and nothing else, as JSON")
	flag.Parse()
	record.WarnOfLoad(os.Stderr)
	measure := measure
	if *asJSON {
		measure = speeds
	}
	if err := measure(os.Stdout, flag.Args(), s); err != nil {
		fmt.Fprintln(os.Stderr, "splice:", err)
		os.Exit(1)
	}
}

func measure(w io.Writer, folders []string, s settings) error {
	machine := record.ThisMachine()
	c, err := read(folders, s)
	if err != nil {
		return err
	}
	if err := c.hint(similarity.Retrievers...); err != nil {
		return err
	}
	r := record.Splice{Machine: machine, Corpus: c.describe(len(folders)), Row: s.length}
	fmt.Fprintf(w, "\n%d sections of %d folders, %d tokens, mean %d\n",
		r.Corpus.Documents, r.Corpus.Folders, c.tokens, c.tokens/int64(len(c.documents)))
	for _, pool := range s.pools {
		figures, err := c.table(w, s.length, pool, s.only)
		if err != nil {
			return err
		}
		r.Pools = append(r.Pools, figures)
		if s.hand != "" {
			if err := c.hand(filepath.Join(s.hand, strconv.Itoa(pool)), pool); err != nil {
				return err
			}
		}
	}
	if s.record != "" {
		if err := record.Write(s.record, r); err != nil {
			return err
		}
	}
	if s.figure == "" {
		return nil
	}
	return drawFigure(r.Pools[len(r.Pools)-1].Packings, s.figure)
}

// read returns enough documents below folders for the pools.
func read(folders []string, s settings) (*corpus, error) {
	m, err := tokenizer.Load("gpt2", tokenizer.Options{})
	if err != nil {
		return nil, err
	}
	c := &corpus{}
	if c.documents, err = sections(m, folders, s.most, s.chunk); err != nil {
		return nil, err
	}
	for _, d := range c.documents {
		c.tokens += int64(len(d.IDs))
	}
	if least := 2 * slices.Max(s.pools); len(c.documents) < least {
		return nil, fmt.Errorf("%d sections below %v: want folders with more text, at least %d",
			len(c.documents), folders, least)
	}
	return c, nil
}

// describe returns the identity of the corpus, which is from the given number of folders.
func (c *corpus) describe(folders int) record.Corpus {
	h := sha256.New()
	var b []byte
	for _, d := range c.documents {
		b = b[:0]
		for _, id := range d.IDs {
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
		}
		h.Write(append(b, d.Path...))
	}
	return record.Corpus{Folders: folders, Documents: len(c.documents), Tokens: c.tokens,
		SHA256: hex.EncodeToString(h.Sum(nil))}
}
