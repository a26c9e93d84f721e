package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"loaderd/bench/page"
	"loaderd/shuffle"
)

// windows are the sizes of the shuffle window, in atoms. 0 keeps the order, and everything is the paper's global
// shuffle.
var windows = []int{0, 16, 64, 256, 1024, 4096, 16384, 65536, everything}

const (
	everything = -1
	mixedRow   = 64  // tokens
	mixedStep  = 256 // rows
)

// printMixing shuffles the run of concat by atoms, through windows and globally. It prints all figures of atoms of
// one row first, then one figure of all atoms.
func printMixing(p *report, out io.Writer) error {
	in := paragraphs()
	var row, sharing page.Markdown
	row.Row("window in atoms of a row", "displacement, mean", "displacement, maximum", "former neighbours apart, mean",
		"neighbours of one document", "atoms of a step that share one")
	head := []string{"atoms of a step that share a document, window in atoms"}
	for _, atom := range atomSizes {
		head = append(head, fmt.Sprintf("%v rows", atom))
	}
	sharing.Row(head...)
	var all []mixed
	for _, window := range windows {
		cells := []string{windowName(window)}
		for _, atom := range atomSizes {
			atoms := cut(in, int(mixedRow*atom))
			x := measure(reorder(len(atoms), window), atoms, int(mixedStep/atom))
			x.atom, x.window = atom, window
			all = append(all, x)
			cells = append(cells, percentage(x.sharing))
			if atom == 1 {
				row.Row(windowName(window), percentage(x.displacement), percentage(x.most), percentage(x.apart),
					percentage(x.neighbours), percentage(x.sharing))
			}
		}
		sharing.Row(cells...)
	}
	if p.draws {
		if err := drawMixing(all, p.PathNextTo("img", "mixing.svg")); err != nil {
			return fmt.Errorf("draw figure: %w", err)
		}
	}
	if err := row.Print(out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return sharing.Print(out)
}

func windowName(window int) string {
	switch window {
	case 0:
		return "none"
	case everything:
		return "all"
	}
	return fmt.Sprint(window)
}

// percentage formats a share with two significant digits, or all digits before the point.
func percentage(share float64) string {
	digits := 0
	if share > 0 {
		digits = max(0, -1-int(math.Floor(math.Log10(share))))
	}
	return fmt.Sprintf("%.*f %%", digits, 100*share)
}

// span is the range of documents whose tokens are in an atom.
type span struct{ first, last int32 }

// cut cuts the concatenation of all documents into atoms.
func cut(lengths []int32, atom int) []span {
	var out []span
	used := 0
	for i, n := range lengths {
		for left := int(n); left > 0; {
			if used == 0 {
				out = append(out, span{first: int32(i)})
			}
			out[len(out)-1].last = int32(i)
			k := min(left, atom-used)
			left, used = left-k, (used+k)%atom
		}
	}
	return out
}

// reorder returns atoms 0 to n-1 in the order in which they leave a window.
func reorder(n, window int) []int32 {
	out := make([]int32, 0, n)
	if window == everything {
		for _, i := range rand.New(rand.NewPCG(42, 0)).Perm(n) {
			out = append(out, int32(i))
		}
		return out
	}
	emit := func(i int32) { out = append(out, i) }
	w := shuffle.New[int32](shuffle.Config{Window: window, Seed: 42})
	for i := range int32(n) {
		w.Add(i, emit)
	}
	w.Flush(emit)
	return out
}

// mixed is how well an order mixes. Distances are shares of all atoms.
type mixed struct {
	atom         float64
	window       int
	displacement float64 // mean distance of an atom from its original place
	most         float64 // and its maximum
	apart        float64 // mean distance of two atoms that were neighbours
	neighbours   float64 // share of the atoms with tokens of the same document as the atom before
	sharing      float64 // share of the atoms with tokens of the same document as another atom of their step
}

// measure compares an order of atoms, in steps of step atoms, with the order in which they were cut.
func measure(order []int32, atoms []span, step int) (m mixed) {
	n := float64(len(order))
	place := make([]int32, len(order))
	for k, i := range order {
		place[i] = int32(k)
	}
	var shared int
	for i := range order {
		d := distance(place[i], int32(i))
		m.displacement += d / n / n
		m.most = max(m.most, d/n)
		if i > 0 {
			m.apart += distance(place[i], place[i-1]) / n / (n - 1)
			if atoms[order[i]].shares(atoms[order[i-1]]) {
				m.neighbours += 1 / (n - 1)
			}
		}
	}
	for batch := range slices.Chunk(slices.Clone(order), step) {
		slices.Sort(batch) // an atom that shares a document shares it with a neighbour
		for k, i := range batch {
			if k > 0 && atoms[i].shares(atoms[batch[k-1]]) || k+1 < len(batch) && atoms[i].shares(atoms[batch[k+1]]) {
				shared++
			}
		}
	}
	m.sharing = float64(shared) / n
	return m
}

func distance(a, b int32) float64 { return float64(max(a-b, b-a)) }

func (s span) shares(o span) bool { return s.first <= o.last && o.first <= s.last }
