package merge

import "math/bits"

// With short tokens, greedy encoding examines many of them and waits for memory at each. So a long word of short
// tokens is merged in overlapping windows, many in parallel. The merge result of a window is right except at its
// ends. Its tokens are used up to a place where a token of the next window starts too, if the two tokens at this
// place are apart. From there on those of the next window are used. The sequence of tokens whose neighbours all fit
// is the word's result, however it was found.
const (
	windowBytes = shortMax
	windowStep  = 36      // distance between the starts of consecutive windows
	windowFills = 8       // how often windows are filled before their speed is checked again
	windowProbe = 1 << 7  // bytes that are encoded without windows for this check
	windowCheck = 1 << 10 // bytes until the next check if windows are slower
)

// greedyWindows are consecutive windows of a word.
type greedyWindows struct {
	window   [Lanes]ShortWord
	join     shortWordScratch
	n        int // number of windows; 0 while their speed is checked
	begin    int // place of the first
	at       int // current window
	nextFill int // the place where the next windows are filled, or where the check ends
	fills    int // remaining fills

	from, tokens, missed int // state at the start of the check
}

// startCheck starts to check over size bytes whether windows are faster.
func (v *greedyWindows) startCheck(s *greedyScratch, dst []int32, at, size int) {
	v.n, v.nextFill = 0, at+size
	v.from, v.tokens, v.missed = at, len(dst), s.misses
}

// isFaster reports whether windows are faster: tokens are short, and few results of fitting are cached.
func (v *greedyWindows) isFaster(s *greedyScratch, dst []int32, at int) bool {
	tokens := len(dst) - v.tokens
	return tokens > (at-v.from)/4 && s.misses-v.missed > tokens/4
}

// advance continues the word from a place, where last ends, as far as the windows are certain.
func (v *greedyWindows) advance(g *greedyMerges, s *greedyScratch, dst []int32, word []byte, last uint32,
	at int) ([]int32, uint32, int) {
	for {
		if at >= v.nextFill {
			switch {
			case v.n > 0 && v.fills == 0:
				v.startCheck(s, dst, at, windowProbe)
				return dst, last, at
			case v.n == 0 && !v.isFaster(s, dst, at):
				v.startCheck(s, dst, at, windowCheck)
				return dst, last, at
			case v.n == 0:
				v.fills = windowFills
			}
			v.fills--
			v.mergeWindows(g.merges, word, at)
		}
		was := at
		if v.n > 0 {
			dst, last, at = v.appendWindows(g, s, dst, last, at)
		}
		if at == was || at == len(word) {
			return dst, last, at
		}
	}
}

// mergeWindows merges the windows of a word from a place on.
func (v *greedyWindows) mergeWindows(m *Merges, word []byte, at int) {
	v.begin, v.at, v.nextFill = at, 0, len(word)
	for v.n = 0; ; at += windowStep {
		m.startBytes(&v.window[v.n], word[at:min(at+windowBytes, len(word))])
		if v.n++; v.n == Lanes || at+windowBytes >= len(word) {
			break
		}
	}
	m.MergeShortWords(&v.join, v.window[:v.n])
	if at+windowBytes < len(word) {
		v.nextFill = at + v.window[v.n-1].lastBoundary(windowStep)
	}
}

// lastBoundary returns the last place, not beyond the given one, where a symbol of w starts or w ends.
func (w *ShortWord) lastBoundary(place int) int { return bits.Len64(w.occupied&(4<<place-1)) - 2 }

// appendWindows appends the tokens of windows from a place on, if they fit after last.
func (v *greedyWindows) appendWindows(g *greedyMerges, s *greedyScratch, dst []int32, last uint32,
	at int) ([]int32, uint32, int) {
	for v.at < v.n-1 && at >= v.begin+(v.at+1)*windowStep {
		v.at++
	}
	w, p := &v.window[v.at], at-v.begin-v.at*windowStep
	if p >= w.size || w.occupied>>(p+1)&1 == 0 || !g.fits(s, last, g.number[w.symbol[p+1]]) {
		return dst, last, at
	}
	for {
		end, met := v.findMeeting(g, s, w, p)
		for left := w.occupied >> (p + 1) << (p + 1) & (2<<end - 1); left != 0; left &= left - 1 {
			last = g.number[w.symbol[bits.TrailingZeros64(left)&placeMask]]
			dst = append(dst, int32(last))
			at += int(g.spellings[last].size)
		}
		if !met {
			return dst, last, at
		}
		v.at++
		w, p = &v.window[v.at], end-windowStep
	}
}

// findMeeting returns the place in a window, after p, where the next one continues. If met is false, it is the place up
// to which the window is certain.
func (v *greedyWindows) findMeeting(g *greedyMerges, s *greedyScratch, w *ShortWord, p int) (end int, met bool) {
	if v.at == v.n-1 {
		return v.nextFill - v.begin - v.at*windowStep, false
	}
	next := &v.window[v.at+1]
	shared := w.occupied >> (windowStep + 1) & (next.occupied >> 1) & (1<<next.size - 1) // a bit per place in next
	if p >= windowStep {
		shared &^= 2<<(p-windowStep) - 1
	}
	for ; shared != 0; shared &= shared - 1 {
		q := bits.TrailingZeros64(shared)
		left := w.symbol[w.lastBoundary(windowStep+q-1)+1]
		if g.fits(s, g.number[left], g.number[next.symbol[q+1]]) {
			return windowStep + q, true
		}
	}
	return w.lastBoundary(windowStep), false
}
