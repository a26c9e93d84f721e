package merge

import "math/bits"

// Of short tokens greedy encoding has to look at many, and to wait for memory at each. Where a long word has them, it
// is merged in windows that overlap, many at once. What merging makes of a window is right but for its ends, so its
// tokens are taken up to a place where one of the next window begins too, if the two tokens there are apart; from there
// on those of the next window. As the row of tokens whose neighbours all fit is the word's, it does not matter how it
// was found.
const (
	windowBytes = shortMax
	windowStep  = 36      // from the begin of a window to that of the next
	windowFills = 8       // times that windows are filled before it is looked again whether they are the faster way
	windowLook  = 1 << 7  // bytes that are encoded without windows to know that
	windowCheck = 1 << 10 // bytes after which it is known anew, where they are not
)

// greedyWindows are neighbouring windows of a word.
type greedyWindows struct {
	window [Lanes]Few
	join   fewScratch
	n      int // windows; none while it is looked whether they are the faster way
	begin  int // of the first
	at     int // the window that the word has come to
	until  int // the place where the next windows are due, or where it is decided whether they are
	fills  int // that are left

	from, tokens, missed int // where the looking began
}

// look begins to look whether windows are the faster way, for some bytes.
func (v *greedyWindows) look(s *greedyScratch, dst []int32, at, size int) {
	v.n, v.until = 0, at+size
	v.from, v.tokens, v.missed = at, len(dst), s.missed
}

// faster tells whether windows are the faster way: tokens are short, and what fits is not known from before.
func (v *greedyWindows) faster(s *greedyScratch, dst []int32, at int) bool {
	tokens := len(dst) - v.tokens
	return tokens > (at-v.from)/4 && s.missed-v.missed > tokens/4
}

// ahead takes the word on from a place, where last ends, as far as windows are sure of.
func (v *greedyWindows) ahead(g *greedyMerges, s *greedyScratch, dst []int32, word []byte, last uint32,
	at int) ([]int32, uint32, int) {
	for {
		if at >= v.until {
			switch {
			case v.n > 0 && v.fills == 0:
				v.look(s, dst, at, windowLook)
				return dst, last, at
			case v.n == 0 && !v.faster(s, dst, at):
				v.look(s, dst, at, windowCheck)
				return dst, last, at
			case v.n == 0:
				v.fills = windowFills
			}
			v.fills--
			v.fill(g.plain, word, at)
		}
		was := at
		if v.n > 0 {
			dst, last, at = v.follow(g, s, dst, last, at)
		}
		if at == was || at == len(word) {
			return dst, last, at
		}
	}
}

// fill merges the windows of a word from a place on.
func (v *greedyWindows) fill(m *Merges, word []byte, at int) {
	v.begin, v.at, v.until = at, 0, len(word)
	for v.n = 0; ; at += windowStep {
		m.beginBytes(&v.window[v.n], word[at:min(at+windowBytes, len(word))])
		if v.n++; v.n == Lanes || at+windowBytes >= len(word) {
			break
		}
	}
	m.JoinFew(&v.join, v.window[:v.n])
	if at+windowBytes < len(word) {
		v.until = at + v.window[v.n-1].before(windowStep)
	}
}

// before is the last place where a symbol of w begins, or w ends, that is not beyond a place.
func (w *Few) before(place int) int { return bits.Len64(w.left&(4<<place-1)) - 2 }

// follow appends the tokens of windows from a place on, if they fit behind last.
func (v *greedyWindows) follow(g *greedyMerges, s *greedyScratch, dst []int32, last uint32,
	at int) ([]int32, uint32, int) {
	for v.at < v.n-1 && at >= v.begin+(v.at+1)*windowStep {
		v.at++
	}
	w, p := &v.window[v.at], at-v.begin-v.at*windowStep
	if p >= w.size || w.left>>(p+1)&1 == 0 || !g.fits(s, last, g.number[w.symbol[p+1]]) {
		return dst, last, at
	}
	for {
		end, met := v.meet(g, s, w, p)
		for left := w.left >> (p + 1) << (p + 1) & (2<<end - 1); left != 0; left &= left - 1 {
			last = g.number[w.symbol[bits.TrailingZeros64(left)&places]]
			dst = append(dst, int32(last))
			at += int(g.of[last].size)
		}
		if !met {
			return dst, last, at
		}
		v.at++
		w, p = &v.window[v.at], end-windowStep
	}
}

// meet is the place in a window, behind p, where the next one goes on; or, not met, the place up to which it is sure.
func (v *greedyWindows) meet(g *greedyMerges, s *greedyScratch, w *Few, p int) (end int, met bool) {
	if v.at == v.n-1 {
		return v.until - v.begin - v.at*windowStep, false
	}
	next := &v.window[v.at+1]
	shared := w.left >> (windowStep + 1) & (next.left >> 1) & (1<<next.size - 1) // a bit a place in next
	if p >= windowStep {
		shared &^= 2<<(p-windowStep) - 1
	}
	for ; shared != 0; shared &= shared - 1 {
		q := bits.TrailingZeros64(shared)
		left := w.symbol[w.before(windowStep+q-1)+1]
		if g.fits(s, g.number[left], g.number[next.symbol[q+1]]) {
			return windowStep + q, true
		}
	}
	return w.before(windowStep), false
}
