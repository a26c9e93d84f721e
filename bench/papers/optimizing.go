package main

import (
	"context"
	"fmt"
	"io"

	"loaderd/bench/page"
	"loaderd/internal/lengths"
	"loaderd/internal/simulation"
)

// Optimizing Packing and Shuffling trains on the paragraphs of WikiText-103; the distribution wikitext replaces their
// lengths.
var optimizing = []table{
	{name: "optimizing-3", title: "Optimizing Packing and Shuffling, Table 3: steps of two epochs", print: printSteps,
		rows: []string{
			"loaderd gen-lengths --dist wikitext | loaderd simulate --method pad --length 64" +
				"    # steps: 2 * floor(sequences / 256)",
		}},
	{name: "optimizing-atoms", title: "Optimizing Packing and Shuffling, A.10: steps of two epochs by atom size, in rows",
		print: printAtoms,
		rows: []string{
			"loaderd gen-lengths --dist wikitext | loaderd simulate --method pad --length 64 --atom 0.25" +
				"    # steps: 2 * floor(sequences / 256)",
		}},
	{name: "optimizing-mixing",
		title: "Optimizing Packing and Shuffling: how well a window mixes atoms, against a global shuffle (all)",
		print: printMixing},
}

const epochs = 2

// published3 has the rows of Table 3.
var published3 = []struct{ row, batch, concat, pad int }{{32, 256, 28120, 31816}, {64, 256, 14058, 17308},
	{128, 128, 14056, 20496}}

func paragraphs() []int32 {
	d, _ := lengths.ByName("wikitext")
	return d.Draw(d.Documents, 1)
}

// steps counts the full batches of two epochs.
func steps(method string, row, batch int, atom float64, in []int32) (int, error) {
	c := packing(method, row, 1, 0)
	c.Atom = atom
	r, err := simulation.Run(context.Background(), c, in, nil)
	if err != nil {
		return 0, err
	}
	return epochs * (int(r.Sequences) / batch), nil
}

func printSteps(_ *report, out io.Writer) error {
	in := paragraphs()
	var m page.Markdown
	m.Row("row, rows a step", "concat, published", "concat, ours", "pad, published", "pad, ours",
		"pad / concat, published", "pad / concat, ours")
	for _, p := range published3 {
		concat, err := steps("concat", p.row, p.batch, 1, in)
		if err != nil {
			return err
		}
		pad, err := steps("pad", p.row, p.batch, 1, in)
		if err != nil {
			return err
		}
		m.Row(fmt.Sprintf("%d, %d", p.row, p.batch), fmt.Sprint(p.concat), fmt.Sprint(concat), fmt.Sprint(p.pad),
			fmt.Sprint(pad), quotient(p.pad, p.concat), quotient(pad, concat))
	}
	return m.Print(out)
}

func quotient(a, b int) string { return fmt.Sprintf("%.3f", float64(a)/float64(b)) }

// atomSizes are the atom sizes of the paper, in rows.
var atomSizes = []float64{0.25, 0.5, 1, 2, 4}

func printAtoms(_ *report, out io.Writer) error {
	in := paragraphs()
	var m page.Markdown
	head := []string{"method, row, rows a step"}
	for _, atom := range atomSizes {
		head = append(head, fmt.Sprint(atom))
	}
	m.Row(head...)
	for _, method := range []string{"pad", "concat"} {
		for _, p := range published3 {
			cells := []string{fmt.Sprintf("%s, %d, %d", method, p.row, p.batch)}
			for _, atom := range atomSizes {
				n, err := steps(method, p.row, p.batch, atom, in)
				if err != nil {
					return err
				}
				cells = append(cells, fmt.Sprint(n))
			}
			m.Row(cells...)
		}
	}
	return m.Print(out)
}
