// Package relatedness measures how related the documents of a training row are, with the metrics of SPLICE
// (Structured Packing in LLM Training Improves Long Context Utilization).
package relatedness

import (
	"math"
	"path"
	"slices"
)

// Document is a document of a packing: its tokens and its path, which may be empty.
type Document struct {
	IDs  []int32
	Path string
}

// Piece is a part of a document in a row.
type Piece struct {
	Document      int
	Start, Length int32
}

// Estimate is the mean and the standard deviation of a metric over rows.
type Estimate struct {
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"`
}

// Metrics describe a packing. Rows with one document have no neighbours and are not evaluated.
type Metrics struct {
	Rows       int `json:"rows"`       // number of evaluated rows
	Neighbours int `json:"neighbours"` // number of pairs of adjacent documents in them
	// NeighbourCosine is the mean cosine of the tf-idf vectors of neighbours. The weight of a token that occurs in d of
	// N sampled documents is (1 + ln count) * ln((N + 1) / (d + .5)).
	NeighbourCosine float64 `json:"neighbour_cosine"`
	// SameFolder and SameFile are the shares of neighbours whose paths have the same folder, or are equal.
	SameFolder float64 `json:"same_folder"`
	SameFile   float64 `json:"same_file"`
	// NearDuplicates is the share of documents, except the first of each row, that have a cosine above .9 with one of
	// the 128 before them.
	NearDuplicates float64 `json:"near_duplicates"`
	// ZipfMLE and ZipfZeta are the exponent a of the distribution of token counts in a row, P(count = f) ~ f^-a: by the
	// approximation 1 + n / sum ln(f / .5), and by maximum likelihood with the zeta function. A lower exponent means a
	// burstier row, in which tokens are repeated. The paper's Table 9 calls it Zipf's coefficient of token frequency and
	// does not state the estimator.
	ZipfMLE  Estimate `json:"zipf_mle"`
	ZipfZeta Estimate `json:"zipf_zeta"`
	// Zipfs are the exponents (ZipfMLE) of the single evaluated rows.
	Zipfs []float64 `json:"-"`
	// Counts is the distribution of counts: Counts[f] is the share of a row's distinct tokens that occur f+1 times in
	// it.
	Counts []float64 `json:"-"`
}

// Sample sizes: rows, evenly distributed over the packing, and tokens of a document.
const (
	sampledRows       = 1200
	sampledDocuments  = 20000
	maxDocumentTokens = 20000
	duplicateCosine   = .9
	duplicateWindow   = 128 // documents of a row
)

// Measure evaluates an even sample of the rows with several documents.
func Measure(documents []Document, rows [][]Piece) Metrics {
	var several [][]Piece
	for _, r := range rows {
		if len(r) > 1 {
			several = append(several, r)
		}
	}
	m := newEvaluator(documents)
	var f Metrics
	var zeta []float64
	for k := 0; k < len(several); k += max(1, len(several)/sampledRows) {
		row := several[k]
		f.Rows++
		m.addNeighbours(row, &f)
		counts := m.rowCounts(row)
		f.Zipfs = append(f.Zipfs, zipfMLE(counts))
		zeta = append(zeta, zipfZeta(counts))
		f.addCounts(counts)
	}
	n := float64(max(f.Neighbours, 1))
	f.NeighbourCosine /= n
	f.SameFolder /= n
	f.SameFile /= n
	f.NearDuplicates /= n
	f.ZipfMLE, f.ZipfZeta = estimate(f.Zipfs), estimate(zeta)
	for i := range f.Counts {
		f.Counts[i] /= float64(max(f.Rows, 1))
	}
	return f
}

// evaluator is the state that all rows share.
type evaluator struct {
	documents    []Document
	rarity       map[int32]float64
	unseenRarity float64 // rarity of tokens outside the sample
	count        map[int32]int
}

func newEvaluator(documents []Document) *evaluator {
	m := &evaluator{documents: documents, rarity: map[int32]float64{}, count: map[int32]int{}}
	n := 0
	for i := 0; i < len(documents); i += max(1, len(documents)/sampledDocuments) {
		n++
		clear(m.count)
		for _, id := range firstTokens(documents[i].IDs) {
			m.count[id]++
		}
		for id := range m.count {
			m.rarity[id]++
		}
	}
	for id, df := range m.rarity {
		m.rarity[id] = math.Log(float64(n+1) / (df + .5))
	}
	m.unseenRarity = math.Log(float64(n+1) / .5)
	return m
}

func firstTokens(ids []int32) []int32 { return ids[:min(len(ids), maxDocumentTokens)] }

// vector is a document as a vector of unit length, sorted by token.
type vector []component

type component struct {
	id     int32
	weight float64
}

func (m *evaluator) vector(p Piece) vector {
	clear(m.count)
	for _, id := range firstTokens(m.documents[p.Document].IDs[p.Start : p.Start+p.Length]) {
		m.count[id]++
	}
	v := make(vector, 0, len(m.count))
	for id, n := range m.count {
		rarity, ok := m.rarity[id]
		if !ok {
			rarity = m.unseenRarity
		}
		v = append(v, component{id, (1 + math.Log(float64(n))) * rarity})
	}
	slices.SortFunc(v, func(a, b component) int { return int(a.id) - int(b.id) })
	var sum float64
	for _, c := range v {
		sum += c.weight * c.weight
	}
	for i := range v {
		v[i].weight /= math.Sqrt(sum) + 1e-12
	}
	return v
}

func (v vector) cosine(w vector) (sum float64) {
	for i, j := 0, 0; i < len(v) && j < len(w); {
		switch a, b := v[i], w[j]; {
		case a.id < b.id:
			i++
		case a.id > b.id:
			j++
		default:
			sum += a.weight * b.weight
			i++
			j++
		}
	}
	return sum
}

func (m *evaluator) addNeighbours(row []Piece, f *Metrics) {
	vectors := make([]vector, len(row))
	for i, p := range row {
		vectors[i] = m.vector(p)
		if i == 0 {
			continue
		}
		f.Neighbours++
		f.NeighbourCosine += vectors[i-1].cosine(vectors[i])
		a, b := m.documents[row[i-1].Document].Path, m.documents[p.Document].Path
		if a != "" && b != "" {
			if path.Dir(a) == path.Dir(b) {
				f.SameFolder++
			}
			if a == b {
				f.SameFile++
			}
		}
		for _, before := range vectors[max(0, i-duplicateWindow):i] {
			if before.cosine(vectors[i]) > duplicateCosine {
				f.NearDuplicates++
				break
			}
		}
	}
}

// rowCounts returns the number of occurrences of each token in a row, in ascending order.
func (m *evaluator) rowCounts(row []Piece) []float64 {
	clear(m.count)
	for _, p := range row {
		for _, id := range m.documents[p.Document].IDs[p.Start : p.Start+p.Length] {
			m.count[id]++
		}
	}
	counts := make([]float64, 0, len(m.count))
	for _, n := range m.count {
		counts = append(counts, float64(n))
	}
	slices.Sort(counts)
	return counts
}

// maxCount is the largest count in the distribution; it includes larger counts.
const maxCount = 10_000

func (f *Metrics) addCounts(counts []float64) {
	for _, n := range counts {
		i := min(int(n), maxCount) - 1
		for i >= len(f.Counts) {
			f.Counts = append(f.Counts, 0)
		}
		f.Counts[i] += 1 / float64(len(counts))
	}
}

func estimate(values []float64) (e Estimate) {
	if len(values) == 0 {
		return e
	}
	n := float64(len(values))
	for _, v := range values {
		e.Mean += v / n
	}
	for _, v := range values {
		e.Std += (v - e.Mean) * (v - e.Mean) / n
	}
	e.Std = math.Sqrt(e.Std)
	return e
}
