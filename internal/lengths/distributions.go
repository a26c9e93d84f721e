package lengths

import (
	"math"
	"math/rand/v2"
)

const (
	seamlessPaper  = "Seamless Packing, "
	bucketsPaper   = "Beyond Fixed Length, Table 1"
	shufflingPaper = "Optimizing Packing and Shuffling, A.1 and Table 3"
	million        = 1_000_000
)

var distributions = []Distribution{
	{Name: "fineweb-edu", Shape: "log-normal, mu 6.363, sigma 1.0235", Mu: FineWebMu, Sigma: FineWebSigma,
		Documents: million,
		Source:    bucketsPaper + ": gives its truncation at every fixed length"},
	{Name: "web", Shape: "log-normal, mu 5.9, sigma 1.0", Mu: 5.9, Sigma: 1, Documents: million,
		Source: "general web pages"},
	{Name: "code", Shape: "log-normal, mu 6.1, sigma 1.4", Mu: 6.1, Sigma: 1.4, Documents: million,
		Source: "source files: a heavy tail"},
	{Name: "short", Shape: "log-normal, mean 60, sigma 0.8", Mu: math.Log(60) - 0.8*0.8/2, Sigma: 0.8, Documents: million,
		Source: "chat turns, titles: far shorter than a row"},
	{Name: "pubmed", Shape: "2,048 to 30,719, in classes", Documents: countDocuments(pubmed), lengths: drawClasses(pubmed),
		Source: seamlessPaper + "Table 13: PubMed articles"},
	{Name: "bbc", Shape: "512 to 6,143, in classes", Documents: countDocuments(bbc), lengths: drawClasses(bbc),
		Source: seamlessPaper + "Table 14: BBC News"},
	{Name: "finance", Shape: "512 to 12,287, in classes", Documents: countDocuments(finance),
		lengths: drawClasses(finance),
		Source:  seamlessPaper + "Table 14: financial articles"},
	{Name: "wikitext", Shape: "59 + gamma of shape 6, mean 144", Documents: 799_439, lengths: wikitext,
		Source: shufflingPaper + ": paragraphs of 50 words and more, and EOS"},
	{Name: "constant", Shape: "1,500 each", Documents: million, lengths: constant, Source: "divides rows of 2,048 badly"},
	{Name: "drift", Shape: "log-normal, mu from 5.5 to 7, sigma 1", Documents: million, lengths: drift,
		Source: "documents that grow longer over time"},
}

// wikitext draws paragraphs of WikiText-103. Paragraphs of fewer than 50 words, about 58 tokens, are left out. The
// others have 143 tokens on average, plus one end token. The shape is chosen to reproduce the paper's numbers of
// training steps.
func wikitext(n int, seed uint64) []int32 {
	const least, mean, shape = 59, 144, 6
	return drawEach(n, seed, func(r *rand.Rand, _ float64) float64 {
		var x float64 // a gamma variate of integer shape is a sum of exponential variates
		for range shape {
			x += r.ExpFloat64()
		}
		return least + x*(mean+0.5-least)/shape // 0.5 compensates rounding down
	})
}

func constant(n int, seed uint64) []int32 {
	return drawEach(n, seed, func(*rand.Rand, float64) float64 { return 1500 })
}

func drift(n int, seed uint64) []int32 {
	return drawEach(n, seed, func(r *rand.Rand, at float64) float64 { return math.Exp(5.5 + 1.5*at + r.NormFloat64()) })
}
