package planner_test

import (
	"slices"

	"pgregory.net/rapid"

	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// labelled counts how often each token occurs with its loss, and the total of tokens without one. It checks these
// against the counts in the steps. runs returns the loss runs of a document as a plan names it. whole reports whether
// a row is one attention segment; nil if segments are not counted.
func labelled(t *rapid.T, steps []plan.Step, runs func(ref uint64) plan.LossRuns,
	whole func([]packonline.Piece) bool) (labels map[token]int, masked int64) {
	labels = map[token]int{}
	masks := map[uint64][]bool{}
	for _, s := range steps {
		repeats := map[[2]int]int32{}
		for _, r := range s.Repeats {
			repeats[[2]int{r.Row, r.Piece}] = r.Tokens
		}
		if len(repeats) != len(s.Repeats) || !slices.IsSortedFunc(s.Repeats, func(a, b plan.Repeat) int {
			return (a.Row-b.Row)<<16 + a.Piece - b.Piece
		}) {
			t.Fatalf("step %d: repeats %v", s.Index, s.Repeats)
		}
		var without, first int64
		var bySource [mixture.MaxSources]int64
		for i, row := range s.Rows {
			for k, x := range row {
				if _, known := masks[x.Doc]; !known {
					masks[x.Doc] = []bool{}
					for n, length := range runs(x.Doc) {
						masks[x.Doc] = append(masks[x.Doc], slices.Repeat([]bool{n%2 == 1}, int(length))...)
					}
				}
				mask := masks[x.Doc]
				for at := range x.Length {
					lost := at < repeats[[2]int{i, k}] || int(x.Start+at) < len(mask) && mask[x.Start+at]
					if !lost {
						bySource[plan.RefSource(x.Doc)]++
						labels[token{x.Doc, x.Start + at}]++
						continue
					}
					without++
					if at == 0 && whole != nil && (k == 0 || !whole(row)) {
						first++
					}
				}
			}
		}
		if s.Masked != without || whole != nil && s.MaskedSegmentStarts != first {
			t.Fatalf("step %d has %d tokens without a loss, %d at the beginning of a segment; it reports %d and %d", s.Index,
				without, first, s.Masked, s.MaskedSegmentStarts)
		}
		if n := len(s.SourceLossTokens); n > 0 && !slices.Equal(s.SourceLossTokens, bySource[:n]) {
			t.Fatalf("step %d has %d tokens with a loss by source, it reports %d", s.Index, bySource[:n], s.SourceLossTokens)
		}
		masked += without
	}
	return labels, masked
}

// onceOnly reports whether an ended run has each taken token with its loss exactly once. This is true if no token was
// dropped and the loss of repeated tokens counts once.
func onceOnly(c runconfig.Config, p *planner.Planner) bool {
	counts, packed := p.Counts()
	once := c.Packing.RepeatLoss == packonline.LossOnce
	for _, s := range c.Sources { // a forked planner has no record of these
		once = once && (s.Packing == nil || s.Packing.RepeatLoss == packonline.LossOnce)
	}
	for i := range p.Infos() {
		if own := p.Mixture().SourceConfig(i).Packing; own != nil {
			once = once && own.RepeatLoss == packonline.LossOnce
		}
	}
	return packed.Dropped+counts.LeftTokens == 0 && (once || packed.Repeated == 0)
}

// comes removes the labels of a message. It checks that each token with a loss occurs the given number of times, and
// no other token occurs.
func comes(t *rapid.T, labels map[token]int, ref uint64, times func(token int) int, length int, runs plan.LossRuns) {
	lost := map[int32]bool{}
	runs.VisitMasked(packonline.Piece{Length: int32(length)}, func(start, end int32) {
		for at := start; at < end; at++ {
			lost[at] = true
		}
	})
	for at := range int32(length) {
		want := 0
		if !lost[at] {
			want = times(int(at))
		}
		if got := labels[token{ref, at}]; got != want {
			t.Fatalf("token %d of document %d of source %d arrived with its loss %d times, want %d", at, plan.RefSequence(ref),
				plan.RefSource(ref), got, want)
		}
		delete(labels, token{ref, at})
	}
}

// apart checks that no piece has tokens of two documents of one message.
func apart(t *rapid.T, steps []plan.Step, documents func(ref uint64) []plan.Part) {
	for _, s := range steps {
		for _, x := range slices.Concat(s.Rows...) {
			begin, end := int32(0), int32(0)
			for _, d := range documents(x.Doc) {
				if begin, end = end, end+int32(d.Length); x.Start < end {
					break
				}
			}
			if x.Start < begin || x.Start+x.Length > end {
				t.Fatalf("step %d: piece %v goes beyond a document, which has tokens [%d, %d)", s.Index, x, begin, end)
			}
		}
	}
}

// evenly checks the labels of a message of which the given number of tokens was taken: all tokens of a document that
// have a loss occur equally often.
func evenly(t *rapid.T, labels map[token]int, ref uint64, a plan.Arrival, taken int) {
	documents := a.Documents()
	times, at := map[int]int{}, 0
	comes(t, labels, ref, func(i int) int {
		if _, known := times[i]; !known { // the first token of its document
			end := 0
			for _, x := range documents {
				begin := end
				end += x.Length
				if i >= begin && i < end {
					for k := begin; k < end; k++ {
						times[k] = labels[token{ref, int32(i)}]
					}
				}
			}
		}
		if len(documents) == 1 {
			return taken / documents[0].Length
		}
		return times[i]
	}, func() int {
		for _, x := range documents {
			at += x.Length
		}
		return at
	}(), lossOf(a))
}
