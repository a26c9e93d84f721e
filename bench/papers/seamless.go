package main

import (
	"context"
	"fmt"
	"io"

	"loaderd/bench/page"
	"loaderd/bench/record"
	"loaderd/internal/lengths"
	"loaderd/internal/simulation"
	"loaderd/packonline"
)

var seamlessPacking = []table{
	{name: "seamless", title: "Seamless Packing, sections 3.4, 4.8 and I.1: what its stages do", print: printSeamless,
		rows: []string{
			"loaderd gen-lengths --dist pubmed | loaderd simulate --method seamless --length 2048 --pool 0",
			"loaderd gen-lengths --dist bbc | loaderd simulate --method seamless --length 512 --extra 10 --pool 0",
		}},
	{name: "seamless-times", title: "Seamless Packing, Table 9: seconds to pack", timed: true, print: printSeamlessTimes},
}

// corpus is a training set of the paper and the settings of appendix D.1.
type corpus struct {
	name       string
	row, extra int
	ffd, bfd   float64 // seconds, Table 9
}

var corpora = []corpus{{"pubmed", 2048, 50, 1.26, 1.78}, {"bbc", 512, 10, 2.24, 2.63}, {"finance", 512, 10, 2.83, 3.61}}

func (c corpus) draw(seed uint64) []int32 {
	d, _ := lengths.ByName(c.name)
	return d.Draw(d.Documents, seed)
}

// packing returns a method's configuration with the paper's settings.
func (c corpus) packing(method string, pool, maxAge int) packonline.Config {
	p := packing(method, c.row, pool, maxAge)
	p.Overlap, p.Extra = 0.3, c.extra
	return p
}

// offline returns packing with a pool that holds all documents.
func (c corpus) offline(method string, in []int32) packonline.Config {
	p := c.packing(method, 0, 0)
	p.Pool = len(in)
	return p
}

// figureNames are the rows of a corpus, and publishedFigures the paper's values.
var (
	figureNames = []string{"documents under windows", "tokens for stage 2", "repeated", "dropped", "dropped by bfd-m",
		"padding",
		"padding of bfd", "sequences", "of these cut from the run"}

	publishedFigures = map[string]string{
		"pubmed, documents under windows": "6716 predicted, 6988 observed",
		"pubmed, tokens for stage 2":      "2.6M predicted, 2.2M observed",
		"pubmed, dropped":                 "51K",
		"pubmed, padding of bfd":          "75K",
		"bbc, dropped":                    "7K",
		"bbc, padding of bfd":             "140K",
	}
)

// printSeamless prints the mean of ten draws offline, and draw 1 offline and with pools. The paper has no such
// figures of finance.
func printSeamless(_ *report, out io.Writer) error {
	var m page.Markdown
	m.Row("lengths, figure", "published", "offline, mean of 10 draws", "offline, draw 1", "pool 4096, age 16384",
		"pool 1024, age 4096")
	for _, c := range corpora[:2] {
		columns := []map[string]int64{{}}
		for seed := range uint64(draws) {
			found, err := figures(c, 0, 0, c.draw(seed+1))
			if err != nil {
				return err
			}
			for name, n := range found {
				columns[0][name] += n
			}
		}
		for _, pool := range []int{0, 4096, 1024} {
			found, err := figures(c, pool, 4*pool, c.draw(1))
			if err != nil {
				return err
			}
			columns = append(columns, found)
		}
		for _, name := range figureNames {
			row := c.name + ", " + name
			cells := []string{row, publishedFigures[row], fmt.Sprint((columns[0][name] + draws/2) / draws)}
			for _, found := range columns[1:] {
				cells = append(cells, fmt.Sprint(found[name]))
			}
			m.Row(cells...)
		}
	}
	return m.Print(out)
}

// figures packs a corpus with seamless, and with the methods that the paper compares it with.
func figures(c corpus, pool, maxAge int, in []int32) (map[string]int64, error) {
	pack := func(method string) (*simulation.Result, error) {
		return simulation.Run(context.Background(), c.packing(method, pool, maxAge), in, nil)
	}
	r, err := pack("seamless")
	if err != nil {
		return nil, err
	}
	bfd, err := pack("bfd")
	if err != nil {
		return nil, err
	}
	modified, err := pack("bfd-m")
	if err != nil {
		return nil, err
	}
	windows, _ := r.Detail["window_documents"].(int64)
	short, _ := r.Detail["short_tokens"].(int64)
	runs, _ := r.Detail["concatenated_sequences"].(int64)
	return map[string]int64{
		"documents under windows":   windows,
		"tokens for stage 2":        short,
		"repeated":                  r.RepeatedTokens,
		"dropped":                   r.DroppedTokens,
		"dropped by bfd-m":          modified.DroppedTokens,
		"padding":                   r.PaddingTokens,
		"padding of bfd":            bfd.PaddingTokens,
		"sequences":                 r.Sequences,
		"of these cut from the run": runs,
	}, nil
}

// printSeamlessTimes packs each corpus 20 times, and prints the minimum time.
func printSeamlessTimes(_ *report, out io.Writer) error {
	machine := record.ThisMachine()
	var m page.Markdown
	m.Row("lengths", "ffd, published", "bfd, published", "ffd, ours", "times faster", "bfd, ours", "times faster",
		"seamless, ours", "seamless, pool 4096, ours")
	for _, c := range corpora {
		in := c.draw(1)
		s, err := packSeconds(in, 20, c.offline("ffd", in), c.offline("bfd", in), c.offline("seamless", in),
			c.packing("seamless", defaultPool, defaultAge))
		if err != nil {
			return err
		}
		cells := []string{c.name, fmt.Sprint(c.ffd), fmt.Sprint(c.bfd)}
		for i, x := range s {
			cells = append(cells, fmt.Sprintf("%.5f", x))
			if i < 2 {
				cells = append(cells, times([]float64{c.ffd, c.bfd}[i]/x))
			}
		}
		m.Row(cells...)
	}
	return m.Print(out, machine)
}
