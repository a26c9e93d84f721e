// Package plantest generates small plans for tests: configurations, document lengths and packing hints.
package plantest

import (
	"slices"

	"pgregory.net/rapid"

	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
	"loaderd/packonline/similarity"
	"loaderd/shuffle"
)

// Config returns a small run with rows of 16 tokens and 4 rows per step.
func Config(method string) runconfig.Config {
	return runconfig.Config{Seed: 7, Tokenizer: runconfig.Tokenizer{Name: "test", Fingerprint: "f", VocabSize: 1 << 20,
		End: -1, Pad: -7},
		Documents: runconfig.Documents{Dedupe: 8},
		Packing: packonline.Config{Method: method, Buckets: []int{16}, Atom: 1, Pool: 8, Holdback: 100, MaxAge: 64,
			Splice: packonline.Splice{Retriever: "bm25", K: 1, Order: "identity", Fill: "exact", Postings: 4096, Dimension: 4}},
		Shuffle: shuffle.Config{Window: 6}, Steps: runconfig.Steps{Rows: 4, Last: runconfig.LastPad},
		Attention: runconfig.AttentionDocument,
		Sources:   map[string]mixture.Source{Source: {Weight: 1, Epochs: 1}},
		Mix:       mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll}}
}

// Source is the only source of Config.
const Source = "docs"

// Header returns the header of a run whose only source is Source, from its first document on.
func Header(c runconfig.Config) planrecord.Header {
	return planrecord.Header{Run: "r", Config: c, Sources: []plan.SourceBegin{{Name: Source, Start: 1}}}
}

// Configs generates valid small configurations of a packing method.
func Configs(method string) *rapid.Generator[runconfig.Config] {
	return rapid.Custom(func(t *rapid.T) runconfig.Config { return drawConfig(t, method) }).
		Filter(func(c runconfig.Config) bool { return len(c.Validate()) == 0 })
}

func drawConfig(t *rapid.T, method string) runconfig.Config {
	c := Config(method)
	c.Seed = rapid.Uint64().Draw(t, "seed")
	c.Packing.Atom = rapid.SampledFrom([]float64{1, 0.25, 0.5, 2, 4}).Draw(t, "atom")
	c.Packing.Buckets = drawBuckets(t, c.Packing)
	c.Packing.Pool = rapid.IntRange(1, 60).Draw(t, "pool")
	c.Packing.Holdback = rapid.SampledFrom([]int{0, 100, 300}).Draw(t, "hold")
	c.Packing.MaxAge = rapid.SampledFrom([]int{0, 200}).Draw(t, "max_age")
	c.Packing.Overlap = rapid.SampledFrom([]float64{0, 0.3, 0.7}).Draw(t, "overlap")
	c.Packing.RepeatLoss = rapid.SampledFrom([]string{"", packonline.LossTwice, packonline.LossOnce}).Draw(t,
		"repeat_loss")
	c.Packing.Extra = rapid.IntRange(0, 2).Draw(t, "extra")
	c.Packing.PaddingThreshold = rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "padding threshold")
	c.Packing.MaxDocumentsPerRow = max(0, rapid.IntRange(-4, 4).Draw(t, "documents per row"))
	c.Packing.Splice.Retriever = rapid.SampledFrom(similarity.Retrievers).Draw(t, "retriever")
	c.Packing.Splice.Fill = rapid.SampledFrom(packonline.Fills).Draw(t, "fill")
	c.Packing.Splice.Order = rapid.SampledFrom(packonline.Orders).Draw(t, "order")
	c.Shuffle.Window = rapid.IntRange(0, 9).Draw(t, "window")
	c.Mix.Share = rapid.SampledFrom([]mixture.ShareUnit{"", mixture.ShareLossTokens}).Draw(t, "share")
	c.Steps.Rows = rapid.IntRange(1, 5).Draw(t, "rows")
	if rapid.Bool().Draw(t, "a table") {
		for range c.Packing.Buckets {
			c.Steps.Table = append(c.Steps.Table, rapid.IntRange(1, 5).Draw(t, "rows of a bucket"))
		}
	}
	if rapid.Bool().Draw(t, "a schedule") {
		c.Steps.Schedule = drawSchedule(t, c)
	}
	c.Steps.Backlog = rapid.IntRange(0, 3).Draw(t, "backlog")
	c.Steps.MaxWait = rapid.SampledFrom([]int{0, 1, 20}).Draw(t, "max_wait")
	c.Steps.Balance = rapid.Bool().Draw(t, "balance")
	c.Steps.Last = rapid.SampledFrom([]string{runconfig.LastPad, runconfig.LastDrop}).Draw(t, "last")
	c.Documents.Dedupe = rapid.IntRange(0, 5).Draw(t, "dedupe")
	switch rapid.IntRange(0, 3).Draw(t, "documents of a message") {
	case 0:
		c.Documents.MultiplePerMessage = true
	case 1:
		c.Documents.MaxTokens = runconfig.MaxTokens{At: 90, Do: runconfig.MaxSplit}
	}
	return c
}

// drawSchedule draws valid phases of a few steps or tokens.
func drawSchedule(t *rapid.T, c runconfig.Config) (phases []runconfig.Phase) {
	steps, from, buckets := rapid.Bool().Draw(t, "by steps"), 0, c.Packing.Buckets
	for range rapid.IntRange(1, 3).Draw(t, "phases") {
		p := runconfig.Phase{}
		from += rapid.IntRange(1, 4).Draw(t, "until the phase")
		ramp := rapid.IntRange(0, 3).Draw(t, "ramp")
		if steps {
			p.FromStep, p.RampSteps = int64(from), int64(ramp)
		} else {
			p.FromTokens, p.RampTokens = mixture.Tokens(from*50), mixture.Tokens(ramp*50)
		}
		before := buckets
		if rapid.IntRange(0, 2).Draw(t, "other buckets") == 0 && c.Packing.Method != "splice" {
			p.Buckets, p.RampSteps, p.RampTokens, ramp = drawBuckets(t, c.Packing), 0, 0, 0
			buckets = p.Buckets
		}
		if from += ramp; rapid.Bool().Draw(t, "a table in the phase") {
			for range buckets {
				p.Table = append(p.Table, rapid.IntRange(1, 6).Draw(t, "rows of a bucket in the phase"))
			}
		} else {
			p.Rows = rapid.IntRange(1, 6).Draw(t, "rows of the phase")
		}
		if c.Steps.Schedule = append(slices.Clip(phases), p); len(c.ValidateSchedule()) == 0 {
			phases = c.Steps.Schedule
		} else {
			buckets = before
		}
	}
	return phases
}

// StepRows returns the rows of a step with rows of a length after that many steps and tokens, or 0 if the step cannot
// have such rows. It computes them from the definition of a schedule, for valid configurations without increments.
func StepRows(c runconfig.Config, length, steps int, tokens int64) int {
	lengths, rows := StepTable(c, steps, tokens)
	if i := slices.Index(lengths, length); i >= 0 {
		return rows[i]
	}
	return 0
}

// StepTable returns the row lengths after that many steps and tokens, and the rows of a step for each.
func StepTable(c runconfig.Config, steps int, tokens int64) (lengths, rows []int) {
	lengths = c.Packing.Buckets
	rows = c.Steps.RowsPerBucket(lengths)
	for _, p := range c.Steps.Schedule {
		done, ramp := int64(steps)-p.FromStep, p.RampSteps
		if p.FromTokens+p.RampTokens > 0 {
			done, ramp = tokens-int64(p.FromTokens), int64(p.RampTokens)
		}
		if done < 0 {
			break
		}
		if len(p.Buckets) > 0 {
			lengths = p.Buckets
		}
		to := runconfig.Steps{Rows: p.Rows, Table: p.Table}.RowsPerBucket(lengths)
		if done < ramp {
			parts := 0 // the largest number of equal whole changes that no common divisor refines
			for n := 1; n <= 6; n++ {
				if isRampOf(rows, to, n) {
					parts = n
				}
			}
			for i := range rows {
				rows[i] += (to[i] - rows[i]) / parts * int(done*int64(parts)/ramp)
			}
			break
		}
		rows = to
	}
	return lengths, rows
}

// ChangesBuckets reports whether a phase changes the row lengths.
func ChangesBuckets(c runconfig.Config) bool {
	return slices.ContainsFunc(c.Steps.Schedule, func(p runconfig.Phase) bool { return len(p.Buckets) > 0 })
}

// isRampOf reports whether n changes lead from the rows of every bucket to others, each a multiple of every common
// divisor of the two.
func isRampOf(from, to []int, n int) bool {
	for i := range from {
		change := to[i] - from[i]
		if change%n != 0 {
			return false
		}
		for d := 1; d <= 6; d++ {
			if from[i]%d == 0 && to[i]%d == 0 && change/n%d != 0 {
				return false
			}
		}
	}
	return true
}

func drawBuckets(t *rapid.T, c packonline.Config) []int {
	parts := int(1 / min(c.Atom, 1))
	out := []int{rapid.IntRange(2, 40/parts).Draw(t, "length") * parts}
	if packonline.IsMultiBucket(c.Method) {
		out = []int{rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "length") * parts}
		for range rapid.IntRange(0, 3).Draw(t, "more lengths") {
			out = append(out, 2*out[len(out)-1])
		}
	}
	return out
}
