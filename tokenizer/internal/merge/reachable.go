package merge

import (
	"unicode/utf8"

	"loaderd/tokenizer/internal/pairs"
)

// LastOfEqual reports for each merge whether no later one joins the same pair.
func LastOfEqual(list []Step) []bool {
	_, kept := lastOfEqual(list)
	return kept
}

func lastOfEqual(list []Step) (t pairs.Table, kept []bool) {
	t = pairs.New(len(list))
	for rank, x := range list {
		t.Put(x.Left, x.Right, uint32(rank))
	}
	kept = make([]bool, len(list))
	for rank, x := range list {
		kept[rank] = t.Rank(x.Left, x.Right) == uint32(rank)
	}
	return t, kept
}

// ReachableMerges reports for each merge whether it is ever done: whether it is the last merge of the characters of its
// result. If a merge is done in a longer text, nothing has been joined over the borders of its result before, so the
// merges within the result are the same. Of equal merges the last one is used. entry returns the spelling of an entry
// of the vocabulary, which has n entries.
func ReachableMerges(list []Step, n int, entry func(place uint32) string) []bool {
	ranks, done := lastOfEqual(list)
	made := make([]uint32, len(list))
	character := map[rune]uint32{}
	for place := range uint32(n) {
		if r, size := utf8.DecodeRuneInString(entry(place)); size > 0 && size == len(entry(place)) {
			character[r] = place
		}
	}
	for rank, x := range list {
		made[rank] = x.Made
	}
	const unknown = none - 1
	last := make([]uint32, n) // result -> rank of the merge that makes it
	for i := range last {
		last[i] = unknown
	}
	var s []uint32
	var l lastMerge
	for rank, x := range list {
		if !done[rank] {
			continue
		}
		if last[x.Made] == unknown {
			s = s[:0]
			for _, r := range entry(x.Made) {
				symbol, ok := character[r]
				if !ok {
					symbol = noSymbol // not part of any merge
				}
				s = append(s, symbol)
			}
			last[x.Made] = l.lastOfSymbols(s, &ranks, made)
		}
		done[rank] = last[x.Made] == uint32(rank)
	}
	return done
}

// lastOfSymbols returns the rank of the merge that reduces some symbols to one, or none.
func (l *lastMerge) lastOfSymbols(symbols []uint32, ranks *pairs.Table, made []uint32) uint32 {
	if len(symbols) < 2 {
		return none
	}
	if len(symbols) <= shortMax {
		if left, r := joinPlain(symbols, l.rank[:], ranks, made); len(left) == 1 {
			return r.last
		}
		return none
	}
	l.node = l.node[:0]
	for i, symbol := range symbols {
		l.node = append(l.node, node{symbol, int32(i - 1), int32(i + 1)})
	}
	rank, _ := l.lastOf(func(a, b node) uint32 {
		return ranks.Rank(a.symbol, b.symbol)
	}, func(_ node, rank uint32) uint32 { return made[rank] })
	return rank
}
