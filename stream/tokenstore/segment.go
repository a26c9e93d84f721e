package tokenstore

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
)

// Layout of a segment. All numbers are little-endian.
//
//	magic    8 bytes
//	records  length u32, CRC-32C of the rest u32, sequence u64, data
//	entries  sequence u64, offset of the record u32, length of its data u32; by sequence
//	blocks   u64; ascending
//	trailer  number of entries u32, number of blocks u32, newest sequence u64, CRC-32C of the entries u32, CRC-32C of
//	         blocks and trailer up to here u32, magic 8 bytes
//
// An open segment ends after its records, the last of which may be incomplete. A segment is sealed by its trailer.
const (
	segmentMagic = "LDTOKEN1"
	trailerMagic = "LDTOKEND"

	recordHeader = 16
	entrySize    = 16
	trailerSize  = 32

	openSuffix   = ".open"
	sealedSuffix = ".seg"
)

// blockShift is the binary logarithm of the sequences of a block. The index of a stream has its segments by block.
const blockShift = 10

// scanSize is the size of a read of another process's segment (unit: bytes).
const scanSize = 32 << 10

// maxRecord bounds the data of a record (unit: bytes).
const maxRecord = 256 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errAbsent  = errors.New("the segment does not have the document")
	errDamaged = errors.New("the segment is damaged")
	// errDamagedRecord is the error for one document of an otherwise readable segment.
	errDamagedRecord = errors.New("the record is damaged")
)

// entry is the place of a document in a segment.
type entry struct {
	sequence uint64
	offset   uint32 // of the record
	length   uint32 // of its data
}

// place is where a document is stored.
type place struct {
	entry
	segment *segment
}

// end returns the offset after the record.
func (x entry) end() int64 { return int64(x.offset) + recordHeader + int64(x.length) }

// segment is a file of documents.
type segment struct {
	path    string // without its suffix
	foreign bool   // another process writes it, or wrote it

	mu     sync.Mutex
	sealed bool
	file   *os.File         // nil: not open
	known  map[uint64]entry // of a segment that is not sealed
	sorted []entry          // of a sealed segment whose file is open, by sequence
	size   int64            // of the magic and the records in known
	newest uint64
	blocks map[uint64]struct{} // that have a document in the segment
}

// appendRecord appends the record of a document to a buffer.
func appendRecord(b []byte, sequence uint64, data []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, sequence)
	b = append(b, data...)
	binary.LittleEndian.PutUint32(b[at:], crc32.Checksum(b[at+4:], castagnoli))
	return b
}

func newSegment(path string) *segment {
	return &segment{path: path, known: map[uint64]entry{}, blocks: map[uint64]struct{}{}}
}

// createSegment creates an empty segment.
func createSegment(path string) (*segment, error) {
	f, err := os.OpenFile(path+openSuffix, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	g := newSegment(path)
	g.file, g.size = f, int64(len(segmentMagic))
	if _, err := f.WriteString(segmentMagic); err != nil {
		g.remove()
		return nil, err
	}
	return g, nil
}

// openSegment opens a segment that another process writes, or wrote until it was killed.
func openSegment(path string) (*segment, error) {
	f, err := os.Open(path + openSuffix)
	if err != nil {
		return nil, err
	}
	magic := make([]byte, len(segmentMagic))
	if _, err := f.ReadAt(magic, 0); err != nil || string(magic) != segmentMagic {
		f.Close()
		return nil, cmp.Or(err, errDamaged)
	}
	g := newSegment(path)
	g.foreign, g.file, g.size = true, f, int64(len(segmentMagic))
	return g, nil
}

// openSealed opens a sealed segment and reads its blocks, but not its entries.
func openSealed(path string) (*segment, error) {
	f, err := os.Open(path + sealedSuffix)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := readTrailer(f)
	if err != nil {
		return nil, err
	}
	g := newSegment(path)
	g.foreign, g.sealed, g.newest = true, true, t.newest
	for _, block := range t.blocks {
		g.blocks[block] = struct{}{}
	}
	return g, nil
}

// trailer is the end of a sealed segment, with its blocks.
type trailer struct {
	entries  int64 // number
	checksum uint32
	blocks   []uint64
	newest   uint64
	start    int64 // of the entries
}

func readTrailer(f *os.File) (t trailer, err error) {
	info, err := f.Stat()
	if err != nil {
		return t, err
	}
	var end [trailerSize]byte
	at := info.Size() - trailerSize
	if at < int64(len(segmentMagic)) {
		return t, errDamaged
	}
	if _, err := f.ReadAt(end[:], at); err != nil {
		return t, err
	}
	t.entries, t.newest = int64(binary.LittleEndian.Uint32(end[:])), binary.LittleEndian.Uint64(end[8:])
	t.checksum = binary.LittleEndian.Uint32(end[16:])
	size := 8 * int64(binary.LittleEndian.Uint32(end[4:]))
	t.start = at - t.entries*entrySize - size
	if string(end[24:]) != trailerMagic || t.start < int64(len(segmentMagic)) {
		return t, errDamaged
	}
	b := make([]byte, size, size+20)
	if _, err := f.ReadAt(b, at-size); err != nil {
		return t, err
	}
	if crc32.Checksum(append(b, end[:20]...), castagnoli) != binary.LittleEndian.Uint32(end[20:]) {
		return t, errDamaged
	}
	for ; len(b) > 0; b = b[8:] {
		t.blocks = append(t.blocks, binary.LittleEndian.Uint64(b))
	}
	return t, nil
}

// load opens the file of a sealed segment and reads its entries. The caller holds mu.
func (g *segment) load() error {
	f, err := os.Open(g.path + sealedSuffix)
	if err != nil {
		return err
	}
	if g.sorted, err = readEntries(f); err != nil {
		f.Close()
		return err
	}
	g.file = f
	return nil
}

func readEntries(f *os.File) ([]entry, error) {
	t, err := readTrailer(f)
	if err != nil {
		return nil, err
	}
	b := make([]byte, t.entries*entrySize)
	if _, err := f.ReadAt(b, t.start); err != nil {
		return nil, err
	}
	if crc32.Checksum(b, castagnoli) != t.checksum {
		return nil, errDamaged
	}
	out := make([]entry, t.entries)
	for i := range out {
		x := b[i*entrySize:]
		out[i] = entry{binary.LittleEndian.Uint64(x), binary.LittleEndian.Uint32(x[8:]), binary.LittleEndian.Uint32(x[12:])}
		if out[i].length > maxRecord {
			return nil, errDamaged
		}
	}
	return out, nil
}

func (g *segment) isSealed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sealed
}

// unload closes the file of a sealed segment and frees its entries.
func (g *segment) unload() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sealed && g.file != nil {
		g.file.Close()
		g.file, g.sorted = nil, nil
	}
}

// read returns the data of a document, in buffer if it has room. It returns errAbsent for a document that the segment
// does not have, and another error if the segment cannot be read.
func (g *segment) read(sequence uint64, buffer []byte) ([]byte, error) {
	found, err := g.appendPlaces(nil, []uint64{sequence})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errAbsent
	}
	x := found[0].entry
	b, err := g.readAt(int64(x.offset), int(x.end()-int64(x.offset)), buffer)
	if err != nil {
		return nil, err
	}
	return checkRecord(b, x)
}

// readAt reads n bytes, into buffer if it has room. It returns errAbsent if another reader has unloaded the segment.
func (g *segment) readAt(offset int64, n int, buffer []byte) ([]byte, error) {
	g.mu.Lock()
	file := g.file
	g.mu.Unlock()
	if file == nil {
		return nil, errAbsent
	}
	b := slices.Grow(buffer[:0], n)[:n]
	if _, err := file.ReadAt(b, offset); err != nil {
		if errors.Is(err, os.ErrClosed) {
			err = errAbsent
		}
		return nil, err
	}
	return b, nil
}

// checkRecord returns the data of a record.
func checkRecord(b []byte, x entry) ([]byte, error) {
	if binary.LittleEndian.Uint32(b) != x.length || binary.LittleEndian.Uint64(b[8:]) != x.sequence ||
		binary.LittleEndian.Uint32(b[4:]) != crc32.Checksum(b[8:], castagnoli) {
		return nil, fmt.Errorf("%w: document %d", errDamagedRecord, x.sequence)
	}
	return b[recordHeader:], nil
}

// appendPlaces appends the places of the documents that the segment has to found. The sequences ascend. It loads a
// sealed segment.
func (g *segment) appendPlaces(found []place, sequences []uint64) ([]place, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.sealed {
		for _, sequence := range sequences {
			if x, ok := g.known[sequence]; ok {
				found = append(found, place{x, g})
			}
		}
		return found, nil
	}
	if g.file == nil {
		if err := g.load(); err != nil {
			return found, err
		}
	}
	rest := g.sorted
	for _, sequence := range sequences {
		if len(rest) > 0 && rest[0].sequence < sequence {
			i, _ := slices.BinarySearchFunc(rest, sequence, func(x entry, sequence uint64) int {
				return cmp.Compare(x.sequence, sequence)
			})
			rest = rest[i:]
		}
		if len(rest) > 0 && rest[0].sequence == sequence {
			found = append(found, place{rest[0], g})
			rest = rest[1:]
		}
	}
	return found, nil
}

// append writes records to the end of the file. It returns the blocks that are new to the segment.
func (g *segment) append(records []byte, entries []entry) (blocks []uint64, err error) {
	g.mu.Lock()
	file, at := g.file, g.size
	g.mu.Unlock()
	if file == nil {
		return nil, os.ErrClosed
	}
	if _, err := file.WriteAt(records, at); err != nil {
		return nil, err
	}
	return g.add(entries, at+int64(len(records))), nil
}

// add records documents that the file contains, up to size. It returns the blocks that are new to the segment.
func (g *segment) add(entries []entry, size int64) (blocks []uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, x := range entries {
		g.known[x.sequence] = x
		g.newest = max(g.newest, x.sequence)
		block := x.sequence >> blockShift
		if _, ok := g.blocks[block]; !ok {
			g.blocks[block] = struct{}{}
			blocks = append(blocks, block)
		}
	}
	g.size = size
	return blocks
}

// scan adds the records that another process has appended since the last call. It returns the blocks that are new to
// the segment, and the number of records.
func (g *segment) scan() (blocks []uint64, records int) {
	g.mu.Lock()
	file, at := g.file, g.size
	g.mu.Unlock()
	if file == nil {
		return nil, 0
	}
	info, err := file.Stat()
	if err != nil || info.Size() <= at {
		return nil, 0
	}
	var found []entry
	// One read per record would take several times longer than reading all of the data.
	in := bufio.NewReaderSize(io.NewSectionReader(file, at, info.Size()-at), scanSize)
	for at <= maxOffset {
		header, err := in.Peek(recordHeader)
		if err != nil {
			break
		}
		length := binary.LittleEndian.Uint32(header)
		sequence := binary.LittleEndian.Uint64(header[8:])
		after := at + recordHeader + int64(length)
		if length > maxRecord || sequence == 0 || after > info.Size() {
			break
		}
		if _, err := in.Discard(int(after - at)); err != nil {
			break
		}
		found = append(found, entry{sequence, uint32(at), length})
		at = after
	}
	return g.add(found, at), len(found)
}

// maxOffset is the largest offset of a record.
const maxOffset = 1<<32 - 1

// seal writes the index of a segment and renames its file.
func (g *segment) seal() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file == nil {
		return os.ErrClosed
	}
	sorted := make([]entry, 0, len(g.known))
	for _, x := range g.known {
		sorted = append(sorted, x)
	}
	slices.SortFunc(sorted, func(a, b entry) int { return cmp.Compare(a.sequence, b.sequence) })
	b := make([]byte, 0, len(sorted)*entrySize+8*len(g.blocks)+trailerSize)
	for _, x := range sorted {
		b = binary.LittleEndian.AppendUint64(b, x.sequence)
		b = binary.LittleEndian.AppendUint32(b, x.offset)
		b = binary.LittleEndian.AppendUint32(b, x.length)
	}
	entries := crc32.Checksum(b, castagnoli)
	rest := len(b)
	for _, block := range slices.Sorted(maps.Keys(g.blocks)) {
		b = binary.LittleEndian.AppendUint64(b, block)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(sorted)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(g.blocks)))
	b = binary.LittleEndian.AppendUint64(b, g.newest)
	b = binary.LittleEndian.AppendUint32(b, entries)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[rest:], castagnoli))
	b = append(b, trailerMagic...)
	if _, err := g.file.WriteAt(b, g.size); err != nil {
		return err
	}
	if err := os.Rename(g.path+openSuffix, g.path+sealedSuffix); err != nil {
		return err
	}
	g.sealed, g.sorted, g.known = true, sorted, nil
	return nil
}

// remove closes and deletes the file.
func (g *segment) remove() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file != nil {
		g.file.Close()
	}
	g.file, g.known, g.sorted = nil, nil, nil
	g.sealed = true // a later read finds no file
	_ = os.Remove(g.path + openSuffix)
	_ = os.Remove(g.path + sealedSuffix)
}

// close closes the file.
func (g *segment) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file != nil {
		g.file.Close()
	}
}
