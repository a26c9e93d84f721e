package wordcache

import "encoding/binary"

// A line is a cache line with the ids and the keys of words of one kind: four of up to shortWord bytes, or two of up
// to keyMax. A word with many ids also uses the ids of the following words, which then have no key. The newest words
// are first.
type line struct {
	ids packedIDs
	key [4]uint64
}

const (
	lineBytes = 64
	lineIDs   = 4 * idsEach // maximum ids of a word in a line
	elsewhere = 15          // the count of a word whose ids are not in a line
)

// The lines of the kinds are consecutive. They are followed by lines for the missing words of a batch, of which only
// the ids are used.
const (
	logShort, logMiddle = 16, 17 // lines: 4 and 8 MiB

	firstMiddle  = 1 << logShort
	firstMissing = firstMiddle + 1<<logMiddle
	middleBit    = 0x10 // in a place: the line is one of middle words
)

// lineKey is the key of a word in a line: the bytes, zero padded, and above them the length; a short word's 8 bytes
// twice. In the key of a word that is too long for a line, all bits are set.
type lineKey [2]uint64

// lengthRow describes how a word of a length is looked up.
type lengthRow struct {
	from  [16]uint8 // the text byte for each byte of the key, or noByte
	or    [2]uint64
	base  uint64 // bytes before the first line of the kind, and middleBit
	shift uint64 // of the hash
	_     [2]uint64
}

const noByte = 0x80

var lengthRows = newLengthRows()

func newLengthRows() (t [keyMax + 2]lengthRow) {
	for n := range t {
		r := &t[n]
		r.base, r.shift = firstMiddle*lineBytes|middleBit, 64-logMiddle
		r.or[1] = uint64(n) << 56
		if n <= shortWord {
			r.base, r.shift = 0, 64-logShort
			r.or[0] = r.or[1]
		}
		for j := range r.from {
			from := j
			if n <= shortWord {
				from = j % 8
			}
			if r.from[j] = uint8(from); from >= n || n > keyMax {
				r.from[j] = noByte
			}
		}
		if n > keyMax {
			r.or = [2]uint64{^uint64(0), ^uint64(0)}
		}
	}
	return t
}

const lineHash0, lineHash1 = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93

// lineKeyOf returns the key of a word of n bytes, the first ones of s, and its place: the offset of its line, and the
// kind.
func lineKeyOf(s *[16]byte, n int) (k lineKey, place uint32) {
	r := &lengthRows[min(n, keyMax+1)]
	var t [16]byte
	for j, from := range r.from {
		if from != noByte {
			t[j] = s[from&15]
		}
	}
	k = lineKey{binary.LittleEndian.Uint64(t[:]) | r.or[0], binary.LittleEndian.Uint64(t[8:]) | r.or[1]}
	h := k[0]*lineHash0 + k[1]*lineHash1
	return k, uint32(h>>(r.shift&63)*lineBytes + r.base)
}

// keyOfWord is lineKeyOf for any word.
func keyOfWord(word []byte) (k lineKey, place uint32) {
	var t [16]byte
	copy(t[:], word)
	return lineKeyOf(&t, len(word))
}

func (k *lineKey) hash() uint64 { return mix(k[0], k[1]) }

// isTooLong reports whether the word is too long for a line.
func (k *lineKey) isTooLong() bool { return k[1] == ^uint64(0) }

// keysEach returns how many keys of the line at a place form the key of one word.
func keysEach(place uint32) int { return 1 + int(place&middleBit/middleBit) }

// packedIDs are the ids of a word: idTriple, of which the first has the number of all ids.
type packedIDs [4]uint64

// pack packs the ids of a word. It returns false if they do not fit.
func (v *packedIDs) pack(ids []int32) bool {
	if len(ids) > lineIDs {
		return false
	}
	*v = packedIDs{}
	at, shift := 0, 0
	for _, id := range ids {
		if id > idMask {
			return false
		}
		v[at&3] |= uint64(id) << shift
		if shift += idBits; shift == idsEach*idBits {
			at, shift = at+1, 0
		}
	}
	v[0] |= uint64(len(ids)) << (idsEach * idBits)
	return true
}

// first returns the first ids in the form of caches.
func (v *packedIDs) first() wordIDs { return wordIDs{idTriple(v[0]), idTriple(v[1])} }

func (v *packedIDs) append(dst []int32) []int32 {
	n := len(dst) + idTriple(v[0]).count()
	for _, some := range v {
		var ids [idsEach]int32
		idTriple(some).writeTo(&ids)
		dst = append(dst, ids[:]...)
	}
	return dst[:n]
}

// idBytes are packedIDs in the form of a record of the shared words. The bytes after the used ones belong to another
// record, which may be written concurrently.
type idBytes [32]byte

// isPacked reports whether a record has its ids packed.
func (b *idBytes) isPacked() bool { return b[7]>>4 != elsewhere }

// fromByte has, by the number of ids, the first byte of each element of packedIDs. For an unused element it is that
// of the last used one.
var fromByte = func() (t [16][4]uint8) {
	for count := range t {
		for i := range t[count] {
			t[count][i] = uint8(8 * min(i, max(0, count-1)/idsEach))
		}
	}
	return t
}()

// read reads ids without branching, because the number of ids of a word is unpredictable.
func (v *packedIDs) read(b *idBytes) {
	first := load64(b[:], 0)
	from := &fromByte[idTriple(first).count()&15]
	v[0], v[1], v[2], v[3] = first, load64(b[:], int(from[1]&24)), load64(b[:], int(from[2]&24)),
		load64(b[:], int(from[3]&24))
}

func (v *packedIDs) write(b *idBytes) {
	for i, three := range v {
		binary.LittleEndian.PutUint64(b[8*i:], three)
	}
}

// insert puts a word first into its line. A word of its kind uses each keys, or more if it has many ids. Words that
// no longer fit are dropped.
func (l *line) insert(each int, k *lineKey, ids *packedIDs) {
	if l.key[0] == k[0] && (each == 1 || l.key[1] == k[1]) {
		return
	}
	if idTriple(ids[0]).count() <= idsEach*each && l.canShift() {
		if each == 1 {
			l.key[0], l.key[1], l.key[2], l.key[3] = k[0], l.key[0], l.key[1], l.key[2]
			l.ids[0], l.ids[1], l.ids[2], l.ids[3] = ids[0], l.ids[0], l.ids[1], l.ids[2]
		} else {
			l.key[0], l.key[1], l.key[2], l.key[3] = k[0], k[1], l.key[0], l.key[1]
			l.ids[0], l.ids[1], l.ids[2], l.ids[3] = ids[0], ids[1], l.ids[0], l.ids[1]
		}
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

// canShift reports whether a word of few ids can be inserted by moving all words of a line, dropping the last one as a
// whole. That is so if a key is at the end of the line, or if no word has more than few ids.
func (l *line) canShift() bool {
	return l.key[3] != 0 || (l.ids[0]|l.ids[1]|l.ids[2]|l.ids[3])>>(idsEach*idBits) <= idsEach
}

// isFull reports whether the line has no room for another word. It may miss this if a word of many ids uses the room.
func (l *line) isFull() bool { return l.key[3]|l.ids[3] != 0 }

// keysOf returns how many keys are replaced by the ids of a word.
func keysOf(ids uint64, each int) int {
	return max(1, (idTriple(ids).count()+idsEach*each-1)/(idsEach*each)) * each
}
