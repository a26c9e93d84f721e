package wordcache

import "slices"

// kernelCache has the known words of an encoder with kernels, in one table of lines. The kernels look the words of a
// batch up in three steps: pack computes keys and prefetches lines, match finds the words in their lines, emit writes
// ids. After its fixed lines the table has one line for each missing word of the batch, so that emit can treat all
// words equally. These words are inserted at their places at the end of the batch.
type kernelCache struct {
	lines      []line
	key        [batchSize]lineKey
	place      [batchSize]uint32 // offset of the word's line, later of its ids
	origin     [batchSize]uint32 // lines of the missing words
	doorkeeper doorkeeper
}

func newKernelCache() *kernelCache {
	t := new(kernelCache)
	t.lines = offHeap[[firstMissing + batchSize]line](t)[:]
	return t
}

// seed adds words that are one token.
func (t *kernelCache) seed(w *seeds) {
	for to := len(w.ends); to > 0; to -= batchSize {
		from, start := max(0, to-batchSize), 0
		if from > 0 {
			start = int(w.ends[from-1])
		}
		pack(t.lines, w.text, start, w.ends[from:to], t.key[:], t.place[:])
		for k := to - 1; k >= from; k-- { // the last ones first, as in seeds.all
			var ids packedIDs
			if ids.pack(w.ids[k : k+1]) {
				t.insert(&t.key[k-from], t.place[k-from], &ids)
			}
		}
	}
}

func (t *kernelCache) insert(k *lineKey, place uint32, ids *packedIDs) {
	t.lines[place/lineBytes].insert(keysEach(place), k, ids)
}

// prefetchDistance is the number of words between the prefetch of a line and its use.
const prefetchDistance = 256

// find adds to m the words of s, from i on with the given ends, that are not in the table. It also prefetches them in
// the shared words.
func (t *kernelCache) find(shared *sharedWords, s []byte, i int, ends []int32, m *missing) {
	near := len(ends) // the words from here on start too near the end of s to read 16 bytes
	for near > 1 && int(ends[near-2])+16 > len(s) {
		near--
	}
	if near == 1 && i+16 > len(s) {
		near = 0
	}
	m.n = 0
	done, start := 0, i
	for k := 0; k < near; {
		to := min(k+prefetchDistance, near)
		pack(t.lines, s, i, ends[k:to], t.key[k:to], t.place[k:to])
		i = int(ends[to-1])
		t.match(shared, done, k, s, start, ends, m)
		done, k = k, to
	}
	for k := near; k < len(ends); k++ {
		t.key[k], t.place[k] = keyOfWord(s[i:ends[k]])
		i = int(ends[k])
	}
	t.match(shared, done, len(ends), s, start, ends, m)
}

// match finds the words [from, to) of a batch.
func (t *kernelCache) match(shared *sharedWords, from, to int, s []byte, i int, ends []int32, m *missing) {
	was := m.n
	m.n = match(t.lines, t.key[from:to], t.place[from:to], &m.word, was, from)
	hash := m.hash[was:m.n]
	for j, k := range m.word[was:m.n] {
		if w := word(s, i, ends, int(k)); len(w) <= shortWord {
			hash[j] = t.key[k&(batchSize-1)].hash()
		} else {
			hash[j] = hashLong(w)
		}
	}
	shared.prefetchBuckets(hash, m.record[was:m.n])
}

// learn stores the ids of the j-th missing word.
func (t *kernelCache) learn(m *missing, j int, ids *idBytes) { t.lineOf(m, j).ids.read(ids) }

// learnMany stores that the ids of the j-th missing word are in m.ids from from on.
func (t *kernelCache) learnMany(m *missing, j, from int) {
	t.lineOf(m, j).ids = packedIDs{elsewhere << (idsEach * idBits), uint64(from), uint64(len(m.ids))}
}

// lineOf returns the line of the j-th missing word, which becomes the word's place.
func (t *kernelCache) lineOf(m *missing, j int) *line {
	k := m.word[j]
	t.origin[j], t.place[k] = t.place[k], uint32(firstMissing+j)*lineBytes
	return &t.lines[firstMissing+j]
}

// append appends the ids of the n words of the batch, all of which are known now.
func (t *kernelCache) append(dst []int32, n int, m *missing) []int32 {
	for places := t.place[:n]; len(places) > 0; {
		dst = slices.Grow(dst, (lineIDs+1)*len(places))
		words, ids := emit(t.lines, dst[len(dst):cap(dst)], places)
		dst = dst[:len(dst)+ids]
		if words < len(places) {
			at := &t.lines[places[words]/lineBytes].ids
			dst = append(dst, m.ids[at[1]:at[2]]...)
			words++
		}
		places = places[words:]
	}
	for j, k := range m.word[:m.n] {
		// The more frequent outcome is tested first, which helps branch prediction.
		if !t.doorkeeper.admits(m.hash[j]) && t.lines[t.origin[j]/lineBytes].isFull() {
			continue
		}
		if ids := &t.lines[firstMissing+j].ids; !t.key[k].isTooLong() && idTriple(ids[0]).count() != elsewhere {
			t.insert(&t.key[k], t.origin[j], ids)
		}
	}
	return dst
}
