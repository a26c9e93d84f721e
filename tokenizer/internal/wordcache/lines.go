package wordcache

import "encoding/binary"

// A line of the processor's caches has the ids and the keys of words of one kind: four of up to shortWord bytes, or two
// of up to keyMax. A word with more ids than fit has those of the words behind it too, which then have no key. The
// newest are first.
type line struct {
	ids packedIDs
	key [4]uint64
}

const (
	lineBytes = 64
	lineIDs   = 4 * idsEach // of a word
	elsewhere = 15          // the count of a word whose ids are not in a line
)

// The kinds have their lines one behind the other. Behind them are those of the words of a batch that were missing, in
// which only the ids count.
const (
	logShort, logMiddle = 16, 17 // lines: 4 and 8 MiB

	firstMiddle  = 1 << logShort
	firstMissing = firstMiddle + 1<<logMiddle
	middleBit    = 0x10 // of a place: the line is one of middle words
)

// lineKey is what a line has for a word: the bytes, zero padded, and above them the length; a short word's 8 bytes
// twice. That of a word too long for a line has all bits set.
type lineKey [2]uint64

// lengthRow tells how a word of a length is looked up.
type lengthRow struct {
	from  [16]uint8 // which byte of the text each of the key is, or noByte
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

// lineKeyOf is the key of a word of n bytes, the first ones of s, and its place: the first byte of its line, and the
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

// none tells that the word is too long for a line.
func (k *lineKey) none() bool { return k[1] == ^uint64(0) }

// keysEach is how many keys of the line at a place one of a word is.
func keysEach(place uint32) int { return 1 + int(place&middleBit/middleBit) }

// packedIDs are the ids of a word: someIDs of which the first counts all.
type packedIDs [4]uint64

// pack packs the ids of a word; false if they do not fit.
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

// first are the first of the ids, as caches keep them.
func (v *packedIDs) first() wordIDs { return wordIDs{someIDs(v[0]), someIDs(v[1])} }

func (v *packedIDs) append(dst []int32) []int32 {
	n := len(dst) + someIDs(v[0]).count()
	for _, some := range v {
		var ids [idsEach]int32
		someIDs(some).put(&ids)
		dst = append(dst, ids[:]...)
	}
	return dst[:n]
}

// idBytes are packedIDs as a record of the shared words has them. What is behind those that have ids is of another
// record, which may just be written.
type idBytes [32]byte

// packed is false if a record has its ids unpacked.
func (b *idBytes) packed() bool { return b[7]>>4 != elsewhere }

// fromByte has, by the number of ids, from which byte on each of packedIDs is to be read: that of the last that has
// any, where a later one has none.
var fromByte = func() (t [16][4]uint8) {
	for count := range t {
		for i := range t[count] {
			t[count][i] = uint8(8 * min(i, max(0, count-1)/idsEach))
		}
	}
	return t
}()

// read does not branch, as how many ids a word has is unpredictable.
func (v *packedIDs) read(b *idBytes) {
	first := eight(b[:], 0)
	from := &fromByte[someIDs(first).count()&15]
	v[0], v[1], v[2], v[3] = first, eight(b[:], int(from[1]&24)), eight(b[:], int(from[2]&24)),
		eight(b[:], int(from[3]&24))
}

func (v *packedIDs) write(b *idBytes) {
	for i, three := range v {
		binary.LittleEndian.PutUint64(b[8*i:], three)
	}
}

// insert puts a word first into its line, where a word of its kind takes each keys, or more if it has many ids. What
// does not fit behind it falls out.
func (l *line) insert(each int, k *lineKey, ids *packedIDs) {
	if l.key[0] == k[0] && (each == 1 || l.key[1] == k[1]) {
		return
	}
	if someIDs(ids[0]).count() <= idsEach*each && l.moves() {
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

// moves is true where a word of few ids moves up all words of a line, and the last one falls out as a whole: it has a
// key at the end of the line, or no word has more than few ids.
func (l *line) moves() bool {
	return l.key[3] != 0 || (l.ids[0]|l.ids[1]|l.ids[2]|l.ids[3])>>(idsEach*idBits) <= idsEach
}

// full tells whether there is no room for another word. Where one of many ids takes the room it may go unnoticed.
func (l *line) full() bool { return l.key[3]|l.ids[3] != 0 }

// keysOf is how many keys the ids of a word take the place of.
func keysOf(ids uint64, each int) int {
	return max(1, (someIDs(ids).count()+idsEach*each-1)/(idsEach*each)) * each
}
