package wordcache

import (
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/pretokenize"
)

const batchSize = pretokenize.BatchSize

// missing are the words of a batch that are not known to an encoder.
type missing struct {
	n      int
	word   [batchSize]uint16 // index in the batch
	hash   [batchSize]uint64
	record [batchSize]uint32 // place in the shared words, or 0: a new word
	packed idBytes           // of a word
	ids    []int32           // of words that have too many ids to be kept
	few    [merge.Lanes]merge.ShortWord
	lane   [merge.Lanes]uint16 // the missing word of each element of few
}

// word returns the k-th word of a batch.
func word(s []byte, i int, ends []int32, k int) []byte {
	if k > 0 {
		i = int(ends[k-1])
	}
	return s[i:ends[k]]
}

// findShared looks up missing words of s, from i on with the given ends, in the shared ones. It returns how many are
// not found.
func (m *missing) findShared(t *sharedWords, s []byte, i int, ends []int32) (fresh int) {
	record := m.record[:m.n]
	for j, h := range m.hash[:m.n] {
		record[j] = t.findRecord(h, len(word(s, i, ends, int(m.word[j]))))
		fresh += int(1 - min(record[j], 1))
	}
	t.prefetchRecords(record)
	return fresh
}

// encodeWords appends the ids of the words of s from i on with the given ends.
func (e *Encoder) encodeWords(dst []int32, s []byte, i int, ends []int32) []int32 {
	m := &e.missing
	e.local.find(e.shared, s, i, ends, m)
	if m.n > 0 {
		m.ids = m.ids[:0]
		e.mergeNew(s, i, ends, m.findShared(e.shared, s, i, ends))
	}
	return e.local.append(dst, len(ends), m)
}

// mergeNew finds the ids of missing words in the shared ones, and merges the words that are in neither, about fresh
// ones.
func (e *Encoder) mergeNew(s []byte, i int, ends []int32, fresh int) {
	m, merges := &e.missing, e.words.merges
	// too few for parallel merging to pay off
	single := merges != nil && merges.Characters() != nil && fresh < merge.Lanes/2
	n := 0
	for j, k := range m.word[:m.n] {
		w := word(s, i, ends, int(k))
		if p := m.record[j]; p != 0 && e.shared.isRecordOf(p, w) {
			e.loadShared(j, p, len(w))
			continue
		}
		from := len(m.ids)
		id, whole := e.words.whole[string(w)]
		switch {
		case whole:
			m.ids = append(m.ids, id)
		case e.segment != nil:
			m.ids = e.segment.Append(m.ids, w)
		case single || !merges.StartShortWord(&e.scratch, &m.few[n], w):
			m.ids = merges.Encode(&e.scratch, m.ids, w)
		default:
			m.lane[n] = uint16(j)
			if n++; n == merge.Lanes {
				e.mergeLanes(s, i, ends, n)
				n = 0
			}
			continue
		}
		e.learn(j, from, w)
	}
	if n > 0 {
		e.mergeLanes(s, i, ends, n)
	}
}

// mergeLanes merges the first n words of few.
func (e *Encoder) mergeLanes(s []byte, i int, ends []int32, n int) {
	m := &e.missing
	e.words.merges.MergeShortWords(&e.scratch.ShortWords, m.few[:n])
	for l, j := range m.lane[:n] {
		from := len(m.ids)
		m.ids = e.words.merges.AppendShortWord(m.ids, &m.few[l])
		e.learn(int(j), from, word(s, i, ends, int(m.word[j])))
	}
}

// learn stores the ids of the j-th missing word w. They are at the end of m.ids from from on.
func (e *Encoder) learn(j, from int, w []byte) {
	m := &e.missing
	var packed packedIDs
	if !packed.pack(m.ids[from:]) {
		e.shared.insert(m.hash[j], w, m.ids[from:], nil)
		e.local.learnMany(m, j, from)
		return
	}
	e.shared.insert(m.hash[j], w, m.ids[from:], &packed)
	m.ids = m.ids[:from]
	packed.write(&m.packed)
	e.local.learn(m, j, &m.packed)
}

// loadShared stores the ids of the j-th missing word, of n bytes, from the record at a place.
func (e *Encoder) loadShared(j int, place uint32, n int) {
	m := &e.missing
	if ids := e.shared.idsAt(place, n); ids.isPacked() {
		e.local.learn(m, j, ids)
		return
	}
	from := len(m.ids)
	m.ids = e.shared.appendIDs(m.ids, place, n)
	e.local.learnMany(m, j, from)
}
