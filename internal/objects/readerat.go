package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
)

const (
	// maxSmallRange is the size up to which an announced range is fetched as a whole, together with its neighbours.
	maxSmallRange = 256 << 10
	// maxExtent bounds ranges that are fetched together, and maxGap the other bytes between two of them.
	maxExtent, maxGap = 1 << 20, 64 << 10
	// maxKept bounds the memory of all fetched extents of an object.
	maxKept = 16 << 20
	// firstWindow is the size of the first request of a sequence of reads that was not announced. Requests double up to
	// maxWindow while the sequence continues.
	firstWindow, maxWindow = 64 << 10, 16 << 20
	// maxSequences bounds the sequences of reads that can continue, each with a connection.
	maxSequences = 64
)

// ReaderAt reads an object at any offset, by requests for ranges of bytes. Every range is one of the listed version.
// Reads that continue where an earlier one ended share a connection, which is buffered only by the network. A server
// that ignores ranges is read once, into a temporary file. A ReaderAt can be used concurrently.
type ReaderAt struct {
	stores *Stores
	ctx    context.Context
	object Object

	mu        sync.Mutex
	extents   []*extent // announced, sorted, disjoint
	kept      []*extent // with data, least recently used first
	sequences []*sequence
	whole     *os.File // a copy of the object, from a server without ranges
}

// extent is a part of the object that was announced.
type extent struct {
	from, to int64
	isSmall  bool // it is fetched as a whole
	fetching sync.Mutex
	data     []byte // of a small one, nil before it is fetched
}

// sequence is a sequence of reads. Its reader, if it has one, is at offset next.
type sequence struct {
	next, window int64
	reader       *reader
}

// ReaderAt returns a reader for random access to an object. Its reads end with ctx.
func (s *Stores) ReaderAt(ctx context.Context, o Object) *ReaderAt {
	return &ReaderAt{stores: s, ctx: ctx, object: o}
}

// Want announces the ranges [from, to) of bytes that will be read, each in sequence, and replaces earlier ones. No
// other bytes are requested for them, except small gaps. No read may be pending.
func (r *ReaderAt) Want(ranges [][2]int64) {
	slices.SortFunc(ranges, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	var extents []*extent
	for _, x := range ranges {
		small := x[1]-x[0] <= maxSmallRange
		if n := len(extents); n > 0 {
			last := extents[n-1]
			x[0] = max(x[0], last.to)
			if last.isSmall && small && x[0]-last.to <= maxGap && x[1]-last.from <= maxExtent {
				last.to = max(last.to, x[1])
				continue
			}
		}
		if x[0] < x[1] {
			extents = append(extents, &extent{from: x[0], to: x[1], isSmall: small})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.extents, r.kept = extents, nil
	r.endSequences()
}

// ReadAt implements io.ReaderAt.
func (r *ReaderAt) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) && err == nil {
		if off >= r.object.Size {
			return n, io.EOF
		}
		var c int
		c, err = r.readSome(p[n:], off)
		n, off = n+c, off+int64(c)
	}
	return n, err
}

// readSome reads at least one byte.
func (r *ReaderAt) readSome(p []byte, off int64) (n int, err error) {
	whole, e := r.find(off)
	switch {
	case whole != nil:
		n, err = whole.ReadAt(p, off)
		if n > 0 {
			err = nil
		}
	case e != nil && e.isSmall:
		var data []byte
		if data, err = r.fetch(e); err == nil {
			n = copy(p, data[off-e.from:])
		}
	default:
		n, err = r.readSequence(p, off, e)
	}
	if errors.Is(err, errNoRanges) {
		return 0, r.copyWhole()
	}
	return n, err
}

// find returns the copy of the object, if it is read from one, and the extent of a byte.
func (r *ReaderAt) find(off int64) (*os.File, *extent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, found := slices.BinarySearchFunc(r.extents, off, func(e *extent, off int64) int {
		switch {
		case e.to <= off:
			return -1
		case e.from > off:
			return 1
		}
		return 0
	})
	if !found {
		return r.whole, nil
	}
	return r.whole, r.extents[i]
}

// fetch returns the data of a small extent.
func (r *ReaderAt) fetch(e *extent) ([]byte, error) {
	e.fetching.Lock()
	defer e.fetching.Unlock()
	data := e.data
	if data == nil {
		body, err := r.open(e.from, e.to)
		if err != nil {
			return nil, err
		}
		data = make([]byte, e.to-e.from)
		_, err = io.ReadFull(body, data)
		if err = errors.Join(err, body.Close()); err != nil {
			return nil, err
		}
		e.data = data
	}
	r.keep(e)
	return data, nil
}

// keep makes an extent the most recently used one, and drops the data of the least recently used ones. The caller
// holds e.fetching.
func (r *ReaderAt) keep(e *extent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(slices.DeleteFunc(r.kept, func(x *extent) bool { return x == e }), e)
	size := int64(0)
	for _, x := range r.kept {
		size += x.to - x.from
	}
	for size > maxKept && len(r.kept) > 1 && r.kept[0].fetching.TryLock() {
		size -= r.kept[0].to - r.kept[0].from
		r.kept[0].data = nil
		r.kept[0].fetching.Unlock()
		r.kept = r.kept[1:]
	}
}

func (r *ReaderAt) open(from, to int64) (*reader, error) {
	body, err := r.stores.openRange(r.ctx, r.object, from, to)
	if err != nil {
		return nil, err
	}
	body.onlyRanges = true
	return body, nil
}

// readSequence reads some bytes of a sequence, which continues an earlier one or begins here. e is the large extent of
// the bytes, or nil.
func (r *ReaderAt) readSequence(p []byte, off int64, e *extent) (n int, err error) {
	s := r.takeSequence(off)
	if s.reader == nil {
		if s.window = min(max(2*s.window, firstWindow, int64(len(p))), maxWindow); e != nil && off == e.from {
			s.window = e.to - e.from
		}
		end := off + s.window
		if e != nil {
			end = min(end, e.to)
		}
		if s.reader, err = r.open(off, min(end, r.object.Size)); err != nil {
			return 0, err
		}
	}
	n, err = s.reader.Read(p)
	s.next += int64(n)
	if err == nil && s.reader.offset == s.reader.end {
		err = s.closeReader()
	}
	if err != nil {
		return n, errors.Join(err, s.closeReader())
	}
	r.putSequence(s)
	return n, nil
}

func (s *sequence) closeReader() error {
	if s.reader == nil {
		return nil
	}
	body := s.reader
	s.reader = nil
	return body.Close()
}

// takeSequence removes the sequence that continues at an offset from the list, or returns a new one.
func (r *ReaderAt) takeSequence(off int64) *sequence {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, s := range r.sequences {
		if s.next == off {
			r.sequences = slices.Delete(r.sequences, i, i+1)
			return s
		}
	}
	return &sequence{next: off}
}

// putSequence adds a sequence to the list, and ends the oldest one beyond the limit.
func (r *ReaderAt) putSequence(s *sequence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sequences = append(r.sequences, s); len(r.sequences) > maxSequences {
		_ = r.sequences[0].closeReader() // read only
		r.sequences = r.sequences[1:]
	}
}

// copyWhole copies the object of a server without ranges into a temporary file, once.
func (r *ReaderAt) copyWhole() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.whole != nil {
		return nil
	}
	r.stores.options.Log.Warn("the server ignores ranges: copying the object into a temporary file",
		"object", r.object.URL, "bytes", r.object.Size)
	body, err := r.stores.Open(r.ctx, r.object, 0)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "loaderd-object-*")
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w, and reading it requires a temporary copy: %w", r.object.URL, errNoRanges, err),
			body.Close())
	}
	_ = os.Remove(file.Name()) // so that a kill leaves no file, where the system permits it
	r.whole = file
	if _, err = io.Copy(file, body); err != nil {
		err = errors.Join(err, r.removeCopy())
	}
	return errors.Join(err, body.Close())
}

// removeCopy removes the temporary file. The caller holds mu.
func (r *ReaderAt) removeCopy() error {
	if r.whole == nil {
		return nil
	}
	file := r.whole
	r.whole = nil
	err := file.Close()
	_ = os.Remove(file.Name()) // already removed, except on Windows
	return err
}

// Close ends all sequences and removes the temporary file. No read may be pending.
func (r *ReaderAt) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.extents, r.kept = nil, nil
	r.endSequences()
	return r.removeCopy()
}

// endSequences closes the connections of all sequences. The caller holds mu.
func (r *ReaderAt) endSequences() {
	for _, s := range r.sequences {
		_ = s.closeReader() // read only
	}
	r.sequences = nil
}
