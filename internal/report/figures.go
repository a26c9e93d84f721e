package report

import (
	"fmt"

	"golang.org/x/net/html"

	"loaderd/internal/quantity"
)

// figure is a plot, which can be drawn as wide as one likes, with the words around it.
type figure struct {
	title, note string
	legend      []swatch
	draw        func(width float64) *html.Node
}

// swatch explains a color.
type swatch struct{ style, text string }

// figures are those of the page, in order. Those that would show nothing are left out.
func (r *Report) figures() (all []figure) {
	if len(r.Results) == 0 || r.Lengths.Documents == 0 {
		return nil
	}
	add := func(title, note string, draw func(float64) *html.Node, legend ...swatch) {
		all = append(all, figure{title, note, legend, draw})
	}
	add("Your documents", "Lengths in tokens. Dotted lines are row lengths: documents beyond the last one must be split by every method.",
		r.histogram, swatch{"background:var(--mark)", "documents"}, swatch{"background:var(--second);height:3px", "tokens"})
	if len(r.followed()) > 0 {
		add("Shares of the sources", "Share of the tokens of every source in every twentieth of the run, in order of emission, and what it is to have in the same twentieth of "+
			"the tokens taken. At the right: how far the worst is off.", r.shares().draw, r.sourceSwatches()...)
	}
	add("Padding", "Slots that hold no token, each of them computed for nothing. Logarithmic.",
		r.lollipops("Padding of every method", func(x Result) float64 { return x.PaddingRatio }).draw)
	add("Documents split", fmt.Sprintf("Documents cut into several pieces; %s are longer than the longest row. Logarithmic.", percent(r.Lengths.Longer)),
		r.lollipops("Documents split by every method", func(x Result) float64 { return x.TruncationRatio }).draw)
	lost := func(x Result) float64 { return x.dropped() + x.repeated() }
	if _, most := values(r.Results, lost); most > 0 {
		add("Tokens dropped or repeated", "What a method leaves out or trains on twice on purpose. Logarithmic.",
			r.lollipops("Tokens dropped or repeated by every method", lost).draw)
	}
	add("Documents a row", "Documents that share a row in the mean. The more there are, the more of an unmasked attention goes between strangers.",
		r.bars("Documents a row", func(x Result) float64 { return x.ConcatenationRatio }, hundredths).draw)
	if len(several(r.Results)) > 0 {
		var legend []swatch
		for k, l := range r.Rows {
			legend = append(legend, swatch{"background:" + ramp(k, len(r.Rows)).String(), quantity.Count(l)})
		}
		add("Which rows", "Share of the slots that lies in rows of each length, for methods with several.", r.bucketShares, legend...)
	}
	add("How long documents wait", "Documents that arrive between a document's arrival and its last token's emission. At the right: median / oldest. Logarithmic.",
		r.ages().draw, swatch{"background:var(--ink);border-radius:50%;width:.55em;height:.55em", "median"},
		swatch{"background:var(--mark)", "half of the documents"},
		swatch{"background:var(--mark);height:5px", "90 %"}, swatch{"background:var(--mark);height:2px", "all"})
	if sampled := r.sampled(); len(sampled) > 0 {
		add("Fair samples", fmt.Sprintf("In every twentieth of the run %s, against the whole run's, %s. All on one scale. At the right: the largest deviation.",
			r.aboutSamples(), percent(sampled[0].Sample.Share)), r.samples().draw,
			swatch{"background:var(--muted);height:2px", "the whole run's share"}, swatch{"background:var(--grid)", "10 % more or less of it"})
	}
	add("Attention", "Tokens that a token attends to, in the mean: what attention costs. At the right: "+
		"the masked cost as a share of the unmasked one. Logarithmic.",
		r.costs().draw, swatch{"background:var(--mark);border-radius:50%", "with the document mask"},
		swatch{"border:2px solid var(--second);border-radius:50%;box-sizing:border-box", "without a mask"})
	add("Speed", "Documents packed a second on one core of the machine that made this page.",
		r.bars("Documents a second", func(x Result) float64 { return x.DocumentsPerSecond }, short).draw)
	if len(r.related()) > 0 {
		add("Burstiness of rows", "Zipf's exponent of the token counts of single rows; lower is burstier: "+
			"what a row speaks of comes again in it. At the right: the mean.",
			r.zipfs().draw, swatch{"background:var(--ink);border-radius:50%;width:.55em;height:.55em", "median"},
			swatch{"background:var(--mark)", "half of the rows"}, swatch{"background:var(--mark);height:5px", "90 %"})
		add("Tokens that come again", "Share of a row's distinct tokens that come so often in it or more, in the mean. The flatter, the burstier. Logarithmic.",
			r.tokenCounts, swatch{"background:var(--accent);height:3px", r.burstiest()}, swatch{"background:var(--mark);height:2px", "the others"})
	}
	return all
}
