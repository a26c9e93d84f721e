package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"loaderd/bench/page"
	"loaderd/internal/lengths"
	"loaderd/internal/simulation"
	"loaderd/packonline"
)

var beyondFixedLength = []table{
	{name: "beyond-1", title: "Beyond Fixed Length, Table 1: padding, truncation, concatenation; 1M documents",
		print: func(_ *report, out io.Writer) error { return printBeyond(out, million, beyondRows()) },
		rows: []string{
			fmt.Sprintf(beyondCommand, million, "bucketllm", 100_000, 0) + " --padding-threshold 0.025",
			fmt.Sprintf(beyondCommand, million, "bucket", 4096, 8192),
		}},
	{name: "beyond-1-5m", title: "Beyond Fixed Length, Table 1, methods with a pool; 5M documents",
		print: func(_ *report, out io.Writer) error { return printBeyond(out, 5*million, withPool(beyondRows())) },
		rows:  []string{fmt.Sprintf(beyondCommand, 5*million, "bucket", 4096, 8192)}},
	{name: "beyond-fixed", title: "Beyond Fixed Length, Table 1: what is counted at fixed lengths", print: printFixed},
	{name: "beyond-surface", title: "Beyond Fixed Length, bucketllm over pool sizes and padding thresholds; 1M documents",
		print: printSurface,
		rows:  []string{fmt.Sprintf(beyondCommand, million, "bucketllm-v0", 30_000, 0) + " --padding-threshold 0.08"}},
}

// beyondCommand packs drawn lengths as the tables do.
const beyondCommand = "loaderd gen-lengths --dist fineweb-edu -n %d | " +
	"loaderd simulate --method %s --buckets 1024,2048,4096,8192,16384 --pool %d --max-age %d"

// beyondThreshold is the padding threshold of the point of the surface that is closest to the paper's BucketLLM.
const beyondThreshold = 0.025

var beyondBuckets = []int{1024, 2048, 4096, 8192, 16384}

// quality is a method's values in Table 1: padding and truncation in %, and documents per row.
type quality [3]float64

func (q quality) cells() []string {
	return []string{percent(q[0]), percent(q[1]), fmt.Sprintf("%.2f", q[2])}
}

// published formats cells with the paper's two digits.
func (q quality) published() []string {
	return []string{fmt.Sprintf("%.2f %%", q[0]), fmt.Sprintf("%.2f %%", q[1]), fmt.Sprintf("%.2f", q[2])}
}

func (q quality) String() string {
	return strings.ReplaceAll(strings.Join(q.cells(), " / "), " %", "")
}

// percent formats two decimals as the paper does, and more where those would be 0.
func percent(x float64) string {
	digits := 2
	if x > 0 && x < 0.1 {
		digits = 1 - int(math.Floor(math.Log10(x)))
	}
	return fmt.Sprintf("%.*f %%", digits, x)
}

// factor returns the distance of two qualities: the largest of the three ratios between them. The ratio of padding is
// infinite if only one has padding.
func (q quality) factor(other quality) float64 {
	far := 1.0
	for i := range q {
		if q[i] == other[i] {
			continue
		}
		far = max(far, q[i]/other[i], other[i]/q[i])
	}
	return far
}

// beyondRow is a row of Table 1.
type beyondRow struct {
	name      string
	method    string
	buckets   []int
	pool      int
	grows     bool // the pool is for a million documents and grows with their number
	maxAge    int
	threshold float64
	published quality
	none      bool // the paper has no figures
}

// beyondRows returns the fixed lengths, the baselines, the points of the surface that are closest to the paper's two
// methods, and loaderd's methods.
func beyondRows() []beyondRow {
	var rows []beyondRow
	for i, l := range beyondBuckets {
		rows = append(rows, beyondRow{name: fmt.Sprintf("Fixed-%d: concat", l), method: "concat", buckets: []int{l},
			published: fixedPublished[i]})
	}
	all := []int{2}
	for all[len(all)-1] < 16384 {
		all = append(all, 2*all[len(all)-1])
	}
	return append(rows,
		beyondRow{name: "DD: decompose, every power of two", method: "decompose", buckets: all,
			published: quality{0, 99.9, 1}},
		beyondRow{name: "decompose, 256 to 16384", method: "decompose", buckets: all[7:], none: true},
		beyondRow{name: "decompose, 1024 to 16384", method: "decompose", buckets: beyondBuckets, none: true},
		beyondRow{name: "naive bucketing (section 4)", method: "naive", buckets: beyondBuckets, none: true},
		beyondRow{name: "BucketLLM-v0", method: "bucketllm-v0", buckets: beyondBuckets, pool: 30_000, grows: true,
			threshold: 0.08, published: publishedV0},
		beyondRow{name: "BucketLLM", method: "bucketllm", buckets: beyondBuckets, pool: 100_000, grows: true,
			threshold: beyondThreshold,
			published: publishedFinal},
		beyondRow{name: "BucketLLM with a bound on ages", method: "bucketllm", buckets: beyondBuckets, pool: 4096,
			maxAge:    8192,
			threshold: beyondThreshold, none: true},
		beyondRow{name: "bucket (ours)", method: "bucket", buckets: beyondBuckets, pool: 4096, maxAge: 8192, none: true},
	)
}

// title returns the name with the settings.
func (x beyondRow) title(pool int) string {
	name := x.name
	if pool > 0 {
		name += fmt.Sprintf(", S = %d", pool)
	}
	if x.threshold > 0 {
		name += fmt.Sprintf(", P = %v", x.threshold)
	}
	if x.maxAge > 0 {
		name += fmt.Sprintf(", max age %d", x.maxAge)
	}
	return name
}

func (x beyondRow) config(pool int) packonline.Config {
	return beyondConfig(x.method, x.buckets, pool, x.maxAge, x.threshold)
}

// withPool returns the methods with a pool.
func withPool(rows []beyondRow) []beyondRow {
	return slices.DeleteFunc(rows, func(x beyondRow) bool { return x.pool == 0 })
}

var (
	fixedPublished = []quality{{0.01, 61.26, 1.03}, {0.01, 38.39, 2.05}, {0.02, 21.45, 4.11}, {0.04, 11.51, 8.20},
		{0.08, 5.96, 16.40}}
	publishedV0    = quality{0.37, 0.19, 3.78}
	publishedFinal = quality{0.12, 0.28, 2.81}
)

func fineweb(n int) []int32 {
	d, _ := lengths.ByName("fineweb-edu")
	return d.Draw(n, 1)
}

// beyond packs lengths with one method.
func beyond(method string, buckets []int, pool, maxAge int, threshold float64, in []int32) (*simulation.Result, error) {
	return simulation.Run(context.Background(), beyondConfig(method, buckets, pool, maxAge, threshold), in, nil)
}

func beyondConfig(method string, buckets []int, pool, maxAge int, threshold float64) packonline.Config {
	return packonline.Config{Method: method, Buckets: buckets, Atom: 1, Pool: max(pool, 1), Holdback: defaultHold,
		MaxAge:           maxAge,
		PaddingThreshold: threshold}
}

func qualityOf(r *simulation.Result) quality {
	return quality{100 * r.PaddingRatio, 100 * r.TruncationRatio, r.ConcatenationRatio}
}

func printBeyond(out io.Writer, documents int, rows []beyondRow) error {
	in := fineweb(documents)
	var m page.Markdown
	m.Row("method", "r_pad, published", "r_pad, ours", "r_tru, published", "r_tru, ours", "r_cat, published",
		"r_cat, ours", "oldest document")
	for _, x := range rows {
		pool := x.pool
		if x.grows {
			pool *= documents / million
		}
		r, err := simulation.Run(context.Background(), x.config(pool), in, nil)
		if err != nil {
			return err
		}
		published := x.published.published()
		if x.none {
			published = []string{"", "", ""}
		}
		ours := qualityOf(r).cells()
		m.Row(x.title(pool), published[0], ours[0], published[1], ours[1], published[2], ours[2], fmt.Sprint(r.AgeMax))
	}
	return m.Print(out)
}

// shard is the number of documents after which a padded last row reproduces the published padding of fixed lengths.
const shard = 10_000

// printFixed compares possible definitions of truncation at a fixed length, and of padding.
func printFixed(_ *report, out io.Writer) error {
	in := fineweb(million)
	var m page.Markdown
	m.Row("row length", "r_tru, published", "documents split", "documents longer than a row", "r_pad, published",
		"r_pad, one flush", fmt.Sprintf("r_pad, a flush every %d documents", shard))
	for i, l := range beyondBuckets {
		long := 0
		for _, n := range in {
			if int(n) > l {
				long++
			}
		}
		c := packonline.Config{Method: "concat", Buckets: []int{l}, Atom: 1, Pool: 1}
		var found []packonline.Counts
		for _, every := range []int{len(in), shard} {
			p, err := packonline.New(c)
			if err != nil {
				return err
			}
			var rows packonline.Rows
			for k, n := range in {
				p.Add(packonline.Doc{Seq: uint64(k), Length: n}, &rows)
				if (k+1)%every == 0 {
					p.Flush(&rows)
				}
				rows.Reset()
			}
			found = append(found, p.Counts())
		}
		padding := func(c packonline.Counts) string { return percent(100 * float64(c.Padding) / float64(c.Slots)) }
		share := func(n int64) string { return percent(100 * float64(n) / float64(len(in))) }
		published := fixedPublished[i].published()
		m.Row(fmt.Sprint(l), published[1], share(found[0].Truncated), share(int64(long)), published[0], padding(found[0]),
			padding(found[1]))
	}
	return m.Print(out)
}

var (
	surfacePools      = []int{10_000, 30_000, 100_000}
	surfaceThresholds = []float64{0, 0.01, 0.025, 0.08, 0.1}
)

// printSurface prints r_pad / r_tru / r_cat for each pool size and padding threshold, and the points closest to the
// paper's figures.
func printSurface(_ *report, out io.Writer) error {
	in := fineweb(million)
	for _, x := range []struct {
		method    string
		published quality
	}{{"bucketllm-v0", publishedV0}, {"bucketllm", publishedFinal}} {
		var m page.Markdown
		head := []string{x.method + ": P, then S ="}
		for _, pool := range surfacePools {
			head = append(head, fmt.Sprint(pool))
		}
		m.Row(head...)
		nearest, least, most := "", math.Inf(1), 0.0
		for _, threshold := range surfaceThresholds {
			cells := []string{fmt.Sprint(threshold)}
			for _, pool := range surfacePools {
				r, err := beyond(x.method, beyondBuckets, pool, 0, threshold, in)
				if err != nil {
					return err
				}
				q := qualityOf(r)
				most = max(most, q[2])
				cells = append(cells, q.String())
				if f := q.factor(x.published); f < least {
					least = f
					nearest = fmt.Sprintf("S = %d, P = %v: %v, that is %.2f, %.2f and %.2f of these", pool, threshold, q,
						q[0]/x.published[0], q[1]/x.published[1], q[2]/x.published[2])
				}
			}
			m.Row(cells...)
		}
		if err := m.Print(out); err != nil {
			return err
		}
		fmt.Fprintf(out, "\nPublished: %v. Nearest point: %s. Greatest r_cat: %.2f.\n\n", x.published, nearest, most)
	}
	return nil
}
