package tokenstore

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"loaderd/loader/docrecord"
	"loaderd/loader/document"
)

const (
	// maxLoaded bounds the sealed segments whose entries are in memory, per stream.
	maxLoaded = 16
	// refreshPause is the minimum time between two searches for documents of other processes.
	refreshPause = 50 * time.Millisecond
	// listAgain is the time after a change of a folder during which it is listed again: file systems store the time of
	// a change with a coarse resolution.
	listAgain = time.Second
)

// identityFile is the file with the identity of a stream, for people.
const identityFile = "identity.json"

// Identity identifies the documents of a stream as one run reads them.
type Identity struct {
	Stream  string    `json:"stream"`  // name
	Created time.Time `json:"created"` // of the stream
	// Settings determine the tokens of a document: tokenizer and all transformations.
	Settings json.RawMessage `json:"settings"`
	Version  string          `json:"version"` // of the program; set by the store
}

// Documents are the stored documents of a stream. Its methods may be called concurrently.
type Documents struct {
	store  *Store
	about  []byte // its Identity in JSON
	folder string

	mu       sync.RWMutex
	segments map[string]*segment   // by path
	blocks   map[uint64][]*segment // by block of sequences, the newest first; a slice is not changed once it is here
	loaded   []*segment            // sealed segments, the most recently used one last
	listed   time.Time             // change time of the folder when it was last listed
	next     time.Time             // earliest time of the next search

	searching sync.Mutex // held by search

	writing sync.Mutex
	current *segment // that this process writes; nil: none
	buffer  []byte   // records not yet in its file
	pending []entry  // of these records
}

// Documents returns the documents of a stream.
func (s *Store) Documents(of Identity) (*Documents, error) {
	of.Version, of.Created = s.version, of.Created.UTC()
	about, err := json.MarshalIndent(of, "", "  ")
	if err != nil {
		return nil, err
	}
	name := sha256.Sum256(about)
	d := &Documents{store: s, about: about, folder: filepath.Join(s.folder, hex.EncodeToString(name[:12])),
		segments: map[string]*segment{}, blocks: map[uint64][]*segment{}}
	d.refresh()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams = append(s.streams, d)
	return d, nil
}

// Stored is a document of the store, without Trace, and its header traceparent.
type Stored struct {
	document.Document
	Traceparent string
}

func parseStored(data []byte, sequence uint64) (x Stored, err error) {
	x.Document, x.Traceparent, err = docrecord.Parse(data, sequence)
	return x, err
}

// Get returns a document.
func (d *Documents) Get(sequence uint64) (x Stored, ok bool) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	data, ok := d.lookup(sequence, *buffer)
	if !ok && d.refresh() {
		data, ok = d.lookup(sequence, *buffer)
	}
	if ok {
		*buffer = data[:0]
		var err error
		if x, err = parseStored(data, sequence); err != nil {
			d.store.reportDamage(d.folder, err)
			ok = false
		}
	}
	if !ok {
		d.store.stats.misses.Add(1)
		return Stored{}, false
	}
	d.store.stats.hits.Add(1)
	return x, true
}

// GetAll returns the stored documents of sequences, which ascend, and leaves out the others. It stops after maxBytes of
// encoded documents, but returns at least one if there is one; rest are the remaining sequences. Reading neighbours
// together costs less than calling Get for each.
func (d *Documents) GetAll(sequences []uint64, maxBytes int) (found []Stored, rest []uint64) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	size := 0
	for len(sequences) > 0 {
		var block []uint64
		block, rest = cutBlock(sequences)
		places := d.placesInBlock(nil, block)
		for i, p := range places {
			if size += int(p.length); size > maxBytes && len(found)+i > 0 {
				n, _ := slices.BinarySearch(sequences, p.sequence)
				places, rest = places[:i], sequences[n:]
				break
			}
		}
		for len(places) > 0 {
			s := firstSpan(places)
			found = d.readSpan(found, s, buffer)
			places = places[len(s.places):]
		}
		if size > maxBytes && len(found) > 0 {
			break
		}
		sequences = rest
	}
	d.store.stats.hits.Add(int64(len(found)))
	return found, rest
}

// cutBlock returns the leading sequences that are in one block, and the others.
func cutBlock(sequences []uint64) (block, rest []uint64) {
	n, _ := slices.BinarySearch(sequences, (sequences[0]>>blockShift+1)<<blockShift)
	return sequences[:n], sequences[n:]
}

// Count returns how many of the documents of sequences, which ascend, are stored.
func (d *Documents) Count(sequences []uint64) int {
	var places []place
	for searched := false; ; searched = true {
		count := 0
		for rest := sequences; len(rest) > 0; {
			var block []uint64
			block, rest = cutBlock(rest)
			places = d.placesInBlock(places[:0], block)
			count += len(places)
		}
		if count == len(sequences) || searched || !d.refresh() {
			return count
		}
	}
}

// placesInBlock returns where documents of one block are stored, in the order of their sequences, which ascend. It
// appends them to found, which is empty.
func (d *Documents) placesInBlock(found []place, sequences []uint64) []place {
	d.mu.RLock()
	segments := d.blocks[sequences[0]>>blockShift]
	d.mu.RUnlock()
	for _, g := range segments {
		var err error
		if found, err = g.appendPlaces(found, sequences); err != nil {
			d.handleError(g, err)
			continue
		}
		d.touch(g)
	}
	if len(segments) > 1 { // the newest segment of a document is first
		slices.SortStableFunc(found, func(a, b place) int { return cmp.Compare(a.sequence, b.sequence) })
		found = slices.CompactFunc(found, func(a, b place) bool { return a.sequence == b.sequence })
	}
	return found
}

// span is a part of a segment that is read at once.
type span struct {
	places     []place // whose records it contains
	start, end int64   // offsets
}

// firstSpan returns the span of the first places that are in one segment and near each other.
func firstSpan(places []place) span {
	s := span{places[:1], int64(places[0].offset), places[0].end()}
	used := s.end - s.start
	for i, p := range places[1:] {
		start, end := min(s.start, int64(p.offset)), max(s.end, p.end())
		used += p.end() - int64(p.offset)
		if p.segment != places[0].segment || end-start > 2*used {
			break
		}
		s = span{places[:i+2], start, end}
	}
	return s
}

// readSpan appends the documents of a span to found, and leaves out those that cannot be read.
func (d *Documents) readSpan(found []Stored, s span, buffer *[]byte) []Stored {
	g := s.places[0].segment
	data, err := g.readAt(s.start, int(s.end-s.start), *buffer)
	if err != nil {
		d.handleError(g, err)
		return found
	}
	*buffer = data[:0]
	for _, p := range s.places {
		record, err := checkRecord(data[int64(p.offset)-s.start:p.end()-s.start], p.entry)
		var x Stored
		if err == nil {
			x, err = parseStored(record, p.sequence)
		}
		if err != nil {
			d.store.reportDamage(g.path, err)
			continue
		}
		found = append(found, x)
	}
	return found
}

// buffers has memory for encoded documents.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Put stores a used document, soon, unless the disk is too slow.
func (d *Documents) Put(x *document.Document, traceparent string) {
	buffer := buffers.Get().(*[]byte)
	*buffer = docrecord.Append((*buffer)[:0], x, traceparent)
	if !d.store.put(queued{d, x.Sequence, buffer}) {
		buffers.Put(buffer)
	}
}

func (d *Documents) lookup(sequence uint64, buffer []byte) ([]byte, bool) {
	d.mu.RLock()
	segments := d.blocks[sequence>>blockShift]
	d.mu.RUnlock()
	for _, g := range segments {
		data, err := g.read(sequence, buffer)
		if err == nil {
			d.touch(g)
			return data, true
		}
		d.handleError(g, err)
	}
	return nil, false
}

// handleError reports an error of reading a segment, and removes the segment if none of it can be read.
func (d *Documents) handleError(g *segment, err error) {
	switch {
	case errors.Is(err, os.ErrNotExist): // deleted to make room
		d.forget(g)
	case errors.Is(err, errDamagedRecord):
		d.store.reportDamage(g.path, err)
	case errors.Is(err, errDamaged), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		d.store.reportDamage(g.path, err)
		d.remove(g)
	}
}

// Newest returns the readable document with the largest sequence, of all processes. It removes segments whose newest
// document is damaged.
func (d *Documents) Newest() (x Stored, ok bool) {
	d.searching.Lock()
	d.search()
	d.searching.Unlock()
	for range newestAttempts {
		g, sequence := d.newestSegment()
		if g == nil {
			return x, false
		}
		data, err := g.read(sequence, nil)
		if err != nil && !errors.Is(err, errDamagedRecord) {
			d.handleError(g, err)
			continue
		}
		if err == nil {
			x, err = parseStored(data, sequence)
		}
		if err == nil {
			d.touch(g)
			return x, true
		}
		d.store.reportDamage(g.path, err)
		d.remove(g)
	}
	return x, false
}

// newestAttempts bounds the segments that Newest tries.
const newestAttempts = 100

// newestSegment returns the segment with the largest sequence; nil without documents.
func (d *Documents) newestSegment() (found *segment, sequence uint64) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, g := range d.segments {
		g.mu.Lock()
		newest := g.newest
		g.mu.Unlock()
		if newest > sequence {
			found, sequence = g, newest
		}
	}
	return found, sequence
}

// DeleteBelow deletes segments all of whose documents are before sequence first.
func (d *Documents) DeleteBelow(first uint64) {
	d.removeIf(func(g *segment) bool { return g.sealed && g.newest < first })
}

// DeleteAll deletes all documents.
func (d *Documents) DeleteAll() {
	d.writing.Lock()
	defer d.writing.Unlock()
	d.current, d.buffer, d.pending = nil, nil, nil
	d.removeIf(func(*segment) bool { return true })
}

func (d *Documents) removeIf(unwanted func(*segment) bool) {
	d.mu.RLock()
	var found []*segment
	for _, g := range d.segments {
		g.mu.Lock()
		if unwanted(g) {
			found = append(found, g)
		}
		g.mu.Unlock()
	}
	d.mu.RUnlock()
	for _, g := range found {
		d.remove(g)
	}
}

// remove deletes a segment.
func (d *Documents) remove(g *segment) {
	d.forget(g)
	g.remove()
}

// forget removes a segment from the index.
func (d *Documents) forget(g *segment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g.mu.Lock()
	blocks := slices.Collect(maps.Keys(g.blocks))
	g.mu.Unlock()
	delete(d.segments, g.path)
	d.loaded = slices.DeleteFunc(d.loaded, func(x *segment) bool { return x == g })
	for _, block := range blocks {
		kept := slices.DeleteFunc(slices.Clone(d.blocks[block]), func(x *segment) bool { return x == g })
		if d.blocks[block] = kept; len(kept) == 0 {
			delete(d.blocks, block)
		}
	}
}

// index adds blocks of a segment to the index.
func (d *Documents) index(g *segment, blocks []uint64) {
	if len(blocks) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, block := range blocks {
		d.blocks[block] = append([]*segment{g}, d.blocks[block]...)
	}
}

// touch records the use of a segment, and unloads the least recently used one if too many are loaded.
func (d *Documents) touch(g *segment) {
	d.mu.RLock()
	n := len(d.loaded)
	last := n > 0 && d.loaded[n-1] == g
	d.mu.RUnlock()
	if last || !g.isSealed() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loaded = append(slices.DeleteFunc(d.loaded, func(x *segment) bool { return x == g }), g)
	if len(d.loaded) > maxLoaded {
		d.loaded[0].unload()
		d.loaded = slices.Delete(d.loaded, 0, 1)
	}
}

// refresh searches for documents that other processes have stored, unless it has just done so. It reports whether it
// found any.
func (d *Documents) refresh() (found bool) {
	if !d.searching.TryLock() {
		return false
	}
	defer d.searching.Unlock()
	d.mu.RLock()
	wait := time.Now().Before(d.next)
	d.mu.RUnlock()
	return !wait && d.search()
}

// search searches for documents that other processes have stored. The caller holds searching.
func (d *Documents) search() (found bool) {
	d.mu.Lock()
	now := time.Now()
	d.next = now.Add(refreshPause)
	info, err := os.Stat(d.folder)
	list := err == nil && (!info.ModTime().Equal(d.listed) || now.Sub(info.ModTime()) < listAgain)
	if list {
		d.listed = info.ModTime()
	}
	var growing []*segment
	for _, g := range d.segments {
		if g.foreign && !g.isSealed() {
			growing = append(growing, g)
		}
	}
	d.mu.Unlock()
	for _, g := range growing {
		if d.scan(g) {
			found = true
		}
	}
	return list && d.list() || found
}

// scan adds the documents that another process has added to a segment. It reports whether it found any.
func (d *Documents) scan(g *segment) bool {
	blocks, n := g.scan()
	d.index(g, blocks)
	return n > 0
}

// list adds the segments that other processes have created or sealed, and removes deleted ones from the index. It
// reports whether it found any.
func (d *Documents) list() (found bool) {
	files, err := os.ReadDir(d.folder)
	if err != nil {
		return false
	}
	exists := map[string]bool{}
	for _, f := range files {
		path := filepath.Join(d.folder, f.Name())
		exists[strings.TrimSuffix(strings.TrimSuffix(path, sealedSuffix), openSuffix)] = true
	}
	d.mu.RLock()
	indexed := slices.Collect(maps.Values(d.segments))
	d.mu.RUnlock()
	for _, g := range indexed {
		if g.isSealed() && !exists[g.path] {
			d.forget(g)
			g.unload()
		}
	}
	for _, f := range files { // by name, so the newest one is indexed last
		path, sealed := strings.CutSuffix(filepath.Join(d.folder, f.Name()), sealedSuffix)
		path, open := strings.CutSuffix(path, openSuffix)
		d.mu.RLock()
		known := d.segments[path]
		d.mu.RUnlock()
		switch {
		case !sealed && !open, known != nil && (open || known.isSealed()):
			continue
		case known != nil:
			d.forget(known)
			known.close()
		}
		if d.open(path, sealed) {
			found = true
		}
	}
	return found
}

// open adds a segment of another process. It reports whether the segment has documents.
func (d *Documents) open(path string, sealed bool) bool {
	openFile := openSegment
	if sealed {
		openFile = openSealed
	}
	g, err := openFile(path)
	if err != nil {
		if errors.Is(err, errDamaged) {
			d.store.reportDamage(path, err)
		}
		return false
	}
	d.mu.Lock()
	d.segments[path] = g
	d.mu.Unlock()
	if sealed {
		d.index(g, slices.Collect(maps.Keys(g.blocks)))
		return true
	}
	return d.scan(g)
}

// write adds a document to the current segment.
func (d *Documents) write(x queued) {
	d.writing.Lock()
	defer d.writing.Unlock()
	if d.current == nil && !d.begin() {
		d.store.stats.dropped.Add(1)
		return
	}
	d.pending = append(d.pending, entry{x.sequence, uint32(d.current.size + int64(len(d.buffer))), uint32(len(*x.data))})
	d.buffer = appendRecord(d.buffer, x.sequence, *x.data)
	if int64(len(d.buffer)) >= min(writeSize, d.store.segmentBytes()) {
		d.flushLocked()
	}
	if g := d.current; g != nil && g.size >= d.store.segmentBytes() {
		d.sealLocked()
	}
}

// begin creates the next segment. It reports false while nothing can be written.
func (d *Documents) begin() bool {
	s := d.store
	if time.Now().Before(s.pausedUntil) {
		return false
	}
	if !s.makeRoom() {
		s.pausedUntil = time.Now().Add(failurePause)
		return false
	}
	g, err := d.create()
	if err != nil {
		d.fail(err)
		return false
	}
	d.current = g
	return true
}

// create creates a segment and adds it to the index.
func (d *Documents) create() (g *segment, err error) {
	if err := os.MkdirAll(d.folder, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(d.folder, identityFile), d.about, 0o600); err != nil {
		return nil, err
	}
	d.mu.Lock() // list must not take the segment for one of another process
	defer d.mu.Unlock()
	g, err = createSegment(filepath.Join(d.folder, fmt.Sprintf("%020d-%08x", time.Now().UnixNano(), rand.Uint32())))
	if err == nil {
		d.segments[g.path] = g
	}
	return g, err
}

// fail abandons the current segment after a failed write, and writes nothing for a while.
func (d *Documents) fail(err error) {
	s := d.store
	s.pausedUntil = time.Now().Add(failurePause)
	s.log.Warn("token store cannot be written: documents may be tokenized again", "folder", d.folder, "error", err,
		"retry", failurePause)
	s.stats.dropped.Add(int64(len(d.pending)))
	if d.current != nil {
		d.remove(d.current)
	}
	d.current, d.buffer, d.pending = nil, nil, nil
}

// flush writes the buffered records.
func (d *Documents) flush() {
	d.writing.Lock()
	defer d.writing.Unlock()
	d.flushLocked()
}

func (d *Documents) flushLocked() {
	g := d.current
	if g == nil || len(d.buffer) == 0 {
		return
	}
	blocks, err := g.append(d.buffer, d.pending)
	if err != nil {
		d.fail(err)
		return
	}
	d.index(g, blocks)
	d.store.stats.bytes.Add(int64(len(d.buffer)))
	d.buffer, d.pending = d.buffer[:0], d.pending[:0]
}

// close writes the buffered records and seals the current segment.
func (d *Documents) close() {
	d.writing.Lock()
	defer d.writing.Unlock()
	d.sealLocked()
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, g := range d.segments {
		g.close()
	}
}

// sealLocked writes the buffered records and seals the current segment.
func (d *Documents) sealLocked() {
	d.flushLocked()
	g := d.current
	if g == nil {
		return
	}
	d.current = nil
	switch err := g.seal(); {
	case errors.Is(err, os.ErrNotExist): // another process has deleted it to make room
		d.remove(g)
	case err != nil:
		d.remove(g)
		d.fail(err)
	default:
		d.touch(g)
	}
}
