package wordcache

import "iter"

// seeds are words that are one token, to be known to a new encoder.
type seeds struct {
	text []byte // the words, followed by the padding of end
	ends []int32
	ids  []int32
}

func (w *seeds) add(text string, id int32) {
	w.text = append(w.text, text...)
	w.ends, w.ids = append(w.ends, int32(len(w.text))), append(w.ids, id)
}

// pad must be called after the last add. It adds padding, so that 16 bytes can be read from the start of each word.
func (w *seeds) pad() { w.text = append(w.text, make([]byte, 16)...) }

// all returns the words and their ids, from the last one to the first. Small ids usually are the frequent words,
// which should be inserted last.
func (w *seeds) all() iter.Seq2[[]byte, int32] {
	return func(yield func([]byte, int32) bool) {
		for k := len(w.ids) - 1; k >= 0; k-- {
			if !yield(word(w.text, 0, w.ends, k), w.ids[k]) {
				return
			}
		}
	}
}
