package main

import (
	"fmt"
	"io"
	"runtime"

	"loaderd/bench/page"
	"loaderd/bench/record"
	"loaderd/internal/lengths"
	"loaderd/packonline"
)

var speed = []table{
	{name: "speed", title: "bucket compared with best fit and BucketLLM: documents per second of processor time",
		timed: true, print: printBucketSpeed},
	{name: "speed-methods", title: "The methods of Beyond Fixed Length, Table 1: documents per second of processor time",
		timed: true,
		print: printMethodSpeed},
}

// printBucketSpeed packs the same lengths with bucket and with its baseline: best fit for rows of one length,
// BucketLLM for rows of several.
func printBucketSpeed(_ *report, out io.Writer) error {
	machine := record.ThisMachine()
	var m page.Markdown
	m.Row("lengths", "rows", "pool, max age", "bucket, documents/s", "baseline", "documents/s", "ratio")
	add := func(name string, in []int32, rows []int, pool, maxAge int, threshold float64) error {
		c := packonline.Config{Buckets: rows, Atom: 1, Pool: pool, Holdback: defaultHold, MaxAge: maxAge,
			PaddingThreshold: threshold}
		ours, theirs := c, c
		ours.Method, theirs.Method = "bucket", "bfd"
		label := fmt.Sprint(rows[0])
		if len(rows) > 1 {
			theirs.Method = "bucketllm"
			label += fmt.Sprintf(" to %d", rows[len(rows)-1])
		}
		s, err := packSeconds(in, 3, ours, theirs)
		if err != nil {
			return err
		}
		n := float64(len(in))
		m.Row(name, label, fmt.Sprintf("%d, %d", pool, maxAge), perSecond(n/s[0]), theirs.Method, perSecond(n/s[1]),
			times(s[1]/s[0]))
		return nil
	}
	in := fineweb(million)
	for row := 512; row <= 32768; row *= 2 {
		if err := add("fineweb-edu", in, []int{row}, defaultPool, defaultAge, 0); err != nil {
			return err
		}
	}
	for _, b := range bucketBounds {
		if err := add("fineweb-edu", in, beyondBuckets, b.pool, b.maxAge, beyondThreshold); err != nil {
			return err
		}
	}
	for _, name := range robustLengths {
		d, _ := lengths.ByName(name)
		in := d.Draw(million, 1)
		for _, rows := range [][]int{{2048}, beyondBuckets} {
			if err := add(name, in, rows, defaultPool, defaultAge, robustThreshold); err != nil {
				return err
			}
		}
	}
	return m.Print(out, machine)
}

// printMethodSpeed packs the rows of Table 1 of Beyond Fixed Length. Each is compared with the last one, bucket.
func printMethodSpeed(_ *report, out io.Writer) error {
	machine := record.ThisMachine()
	in := fineweb(million)
	rows := beyondRows()
	var configs []packonline.Config
	for _, x := range rows {
		configs = append(configs, x.config(x.pool))
	}
	s, err := packSeconds(in, 3, configs...)
	if err != nil {
		return err
	}
	var m page.Markdown
	m.Row("method", "documents/s", "ratio to bucket")
	for i, x := range rows {
		m.Row(x.title(x.pool), perSecond(float64(len(in))/s[i]), times(s[len(s)-1]/s[i]))
	}
	return m.Print(out, machine)
}

// packSeconds packs lengths with several packers in turn, the given number of times. It returns the minimum processor
// time of each, from the first length to the last row and its spans. The minimum reduces the effect of other load.
func packSeconds(in []int32, times int, configs ...packonline.Config) ([]float64, error) {
	least := make([]float64, len(configs))
	for range times {
		for i, c := range configs {
			s, err := packOnce(c, in)
			if err != nil {
				return nil, err
			}
			if least[i] == 0 || s < least[i] {
				least[i] = s
			}
		}
	}
	return least, nil
}

func packOnce(c packonline.Config, in []int32) (float64, error) {
	p, err := packonline.New(c)
	if err != nil {
		return 0, err
	}
	runtime.GC()
	start := record.ProcessorTime()
	var rows packonline.Rows
	for i, n := range in {
		p.Add(packonline.Doc{Seq: uint64(i), Length: n}, &rows)
		if i%4096 == 0 {
			rows.Reset()
		}
	}
	p.Flush(&rows)
	return (record.ProcessorTime() - start).Seconds(), nil
}

// perSecond formats a number in thousands or millions, with a letter.
func perSecond(x float64) string {
	switch {
	case x >= 1e6:
		return fmt.Sprintf("%.1fM", x/1e6)
	case x >= 1e4:
		return fmt.Sprintf("%.1fk", x/1e3)
	}
	return fmt.Sprintf("%.0f", x)
}

// times formats a ratio with two or three significant digits.
func times(ratio float64) string {
	switch {
	case ratio >= 10:
		return fmt.Sprintf("%.0f", ratio)
	case ratio >= 0.1:
		return fmt.Sprintf("%.2f", ratio)
	}
	return fmt.Sprintf("%.2g", ratio)
}
