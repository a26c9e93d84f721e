package wordcache

import "iter"

// seeds are words that are one token, for a new encoder to know.
type seeds struct {
	text []byte // one behind the other, and what end puts behind them
	ends []int32
	ids  []int32
}

func (w *seeds) add(text string, id int32) {
	w.text = append(w.text, text...)
	w.ends, w.ids = append(w.ends, int32(len(w.text))), append(w.ids, id)
}

// end comes after the last add: from the start of each word on there are 16 bytes to read.
func (w *seeds) end() { w.text = append(w.text, make([]byte, 16)...) }

// all gives the words and their ids, from the last one to the first: small ids are mostly the frequent words, which are
// to come last.
func (w *seeds) all() iter.Seq2[[]byte, int32] {
	return func(yield func([]byte, int32) bool) {
		for k := len(w.ids) - 1; k >= 0; k-- {
			if !yield(word(w.text, 0, w.ends, k), w.ids[k]) {
				return
			}
		}
	}
}
