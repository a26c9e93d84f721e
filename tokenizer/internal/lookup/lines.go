package lookup

import "encoding/binary"

// A line of the processor's caches has the ids and the keys of words of one kind: four of up to 7 bytes, two of up to 15, or one of up to 31. A
// word with more ids than fit has those of the words behind it too, which then have no key. The newest are first.
type line struct{ ids, key [4]uint64 }

const (
	lineBytes = 64
	lineWord  = 31          // bytes of a word that may be in a line
	lineIDs   = 4 * idsEach // of a word
	elsewhere = 15          // the count of a word whose ids are not in a line
)

// The kinds have their lines one behind the other. Behind them are those of the words of a batch that were missing, in which only the ids count.
const (
	logShort, logMiddle, logLong = 16, 17, 15

	firstMiddle  = 1 << logShort
	firstLong    = firstMiddle + 1<<logMiddle
	firstMissing = firstLong + 1<<logLong
	kindBits     = 0x30 // of a place: the kind, 0 to 2, above the four lowest bits
)

// lineKey is what the keys of a line would be, were each that of the word: the bytes, zero padded, and above them the length. That of a word too
// long for a line has all bits set.
type lineKey [4]uint64

// lengthRow tells how a word of a length is looked up.
type lengthRow struct {
	from    [8]uint32 // which 32 bits of the text the key has
	and, or [4]uint64
	base    uint64 // bytes before the first line of the kind, and the kind
	shift   uint64 // of the hash
	_       [2]uint64
}

var lengthRows = newLengthRows()

func newLengthRows() (t [lineWord + 2]lengthRow) {
	for n := range t {
		r := &t[n]
		kind, words := 2, 4
		r.base, r.shift = firstLong*lineBytes, 64-logLong
		switch {
		case n <= 7:
			kind, words, r.base, r.shift = 0, 1, 0, 64-logShort
		case n <= 15:
			kind, words, r.base, r.shift = 1, 2, firstMiddle*lineBytes, 64-logMiddle
		}
		r.base |= uint64(kind) << 4
		for j := range r.from {
			r.from[j] = uint32(j % (2 * words))
		}
		for j := range r.and {
			if n > lineWord {
				r.or[j] = ^uint64(0)
				continue
			}
			r.and[j] = 1<<(8*min(max(n-j%words*8, 0), 8)) - 1
			if j%words == words-1 {
				r.or[j] = uint64(n) << 56
			}
		}
	}
	return t
}

const lineHash0, lineHash1 = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93

// lineKeyOf is the key of a word of n bytes, the first ones of s, and its place: the first byte of its line, and the kind.
func lineKeyOf(s *[32]byte, n int) (k lineKey, place uint32) {
	r := &lengthRows[min(n, lineWord+1)]
	q := [4]uint64{
		binary.LittleEndian.Uint64(s[:]), binary.LittleEndian.Uint64(s[8:]),
		binary.LittleEndian.Uint64(s[16:]), binary.LittleEndian.Uint64(s[24:]),
	}
	for j := range k {
		k[j] = q[r.from[2*j]/2&3]&r.and[j] | r.or[j]
	}
	h := (2*k[0]+k[2])*lineHash0 + (2*k[1]+k[3])*lineHash1
	return k, uint32(h>>(r.shift&63)*lineBytes + r.base)
}

// keyOfWord is lineKeyOf for any word.
func keyOfWord(word []byte) (k lineKey, place uint32) {
	var t [32]byte
	copy(t[:], word)
	return lineKeyOf(&t, len(word))
}

func (k *lineKey) hash() uint64 { return mix(mix(k[0], k[1])^k[2], k[3]) }

// none tells that the word is too long for a line.
func (k *lineKey) none() bool { return k[3] == ^uint64(0) }

// packLine packs the ids of a word as lines have them; not ok if they do not fit.
func packLine(ids []int32) (v [4]uint64, ok bool) {
	if len(ids) > lineIDs {
		return v, false
	}
	for i, id := range ids {
		if id > idMask {
			return v, false
		}
		v[i/idsEach] |= uint64(id) << (i % idsEach * idBits)
	}
	v[0] |= uint64(len(ids)) << (idsEach * idBits)
	return v, true
}

// insert puts a word first into its line, where a word of its kind takes each keys, or more if it has many ids. What does not fit behind it falls out.
func (l *line) insert(each int, k *lineKey, ids *[4]uint64) {
	if *k == l.key || each == 1 && l.key[0] == k[0] || each == 2 && l.key[0] == k[0] && l.key[1] == k[1] {
		return
	}
	n := keysOf(ids[0], each)
	if n > len(l.key) {
		return
	}
	kept := 0
	for kept < len(l.key) {
		next := kept + each
		if l.key[next-1] != 0 {
			next = kept + keysOf(l.ids[kept], each)
		}
		if next+n > len(l.key) {
			break
		}
		kept = next
	}
	old := *l
	*l = line{}
	copy(l.key[:each], k[:])
	copy(l.ids[:n], ids[:])
	copy(l.key[n:], old.key[:kept])
	copy(l.ids[n:], old.ids[:kept])
}

// keysOf is how many keys the ids of a word take the place of.
func keysOf(ids uint64, each int) int {
	return max(1, (someIDs(ids).count()+idsEach*each-1)/(idsEach*each)) * each
}
