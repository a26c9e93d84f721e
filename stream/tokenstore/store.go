package tokenstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"loaderd/internal/diskspace"
)

const (
	// freeShare is the inverse of the part of the disk's free space that a store uses at most.
	freeShare = 10
	// segmentShare is the inverse of the part of a store that one segment is.
	segmentShare = 32
	// minSegment and maxSegment bound the size of a segment (unit: bytes).
	minSegment = 64 << 10
	maxSegment = 64 << 20
	// maxQueued bounds the documents that wait to be written (unit: bytes).
	maxQueued = 8 << 20
	// writeSize is the size of a write to a segment (unit: bytes).
	writeSize = 256 << 10
	// failurePause is the time without writes after one has failed.
	failurePause = time.Minute
)

// Store is a folder of tokenized documents of several streams. A nil Store has no documents, and nothing to close.
type Store struct {
	folder   string
	maxBytes int64
	version  string
	log      *slog.Logger

	queue   chan queued
	waiting atomic.Int64 // bytes in the queue
	done    chan struct{}
	stats   counters

	pausedUntil time.Time // used by the writing goroutine only
	warnDamaged sync.Once

	mu      sync.Mutex
	closed  bool
	streams []*Documents
}

// counters has the values of Stats.
type counters struct{ bytes, hits, misses, dropped, damaged atomic.Int64 }

// Stats are figures of a store since it was opened.
type Stats struct {
	Bytes   int64 // size of the folder when this process last began a segment, plus what it has written since
	Hits    int64 // documents read
	Misses  int64 // documents requested that the store does not have
	Dropped int64 // documents not written, because the disk was too slow or full
	Damaged int64 // documents that could not be read because of damage
}

// queued is a document that waits to be written.
type queued struct {
	of       *Documents
	sequence uint64
	data     *[]byte // of buffers
}

// Open opens a store of at most maxBytes, and of at most a tenth of the free space of its disk. It creates the folder.
// Documents of another version of the program are not used.
func Open(folder string, maxBytes int64, version string, log *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("create the token store: %w", err)
	}
	s := &Store{folder: folder, maxBytes: maxBytes, version: version, log: log, queue: make(chan queued, 1<<14),
		done: make(chan struct{})}
	s.stats.bytes.Store(total(s.list()))
	go s.write()
	return s, nil
}

// Close writes the queued documents and seals the segments.
func (s *Store) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.queue)
	}
	s.mu.Unlock()
	<-s.done
}

// Stats returns the figures of the store.
func (s *Store) Stats() Stats {
	if s == nil {
		return Stats{}
	}
	return Stats{Bytes: s.stats.bytes.Load(), Hits: s.stats.hits.Load(), Misses: s.stats.misses.Load(),
		Dropped: s.stats.dropped.Load(), Damaged: s.stats.damaged.Load()}
}

// put queues a document, or drops it if too many wait. It reports whether it has queued the document.
func (s *Store) put(x queued) bool {
	n := int64(len(*x.data))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.waiting.Load()+n > maxQueued || n > maxRecord {
		s.stats.dropped.Add(1)
		return false
	}
	select {
	case s.queue <- x:
		s.waiting.Add(n)
		return true
	default:
		s.stats.dropped.Add(1)
		return false
	}
}

// write writes queued documents until the store is closed.
func (s *Store) write() {
	defer close(s.done)
	for x := range s.queue {
		s.waiting.Add(-int64(len(*x.data)))
		x.of.write(x)
		buffers.Put(x.data)
		if len(s.queue) == 0 {
			s.eachStream((*Documents).flush)
		}
	}
	s.eachStream((*Documents).close)
}

func (s *Store) eachStream(f func(*Documents)) {
	s.mu.Lock()
	streams := slices.Clone(s.streams)
	s.mu.Unlock()
	for _, d := range streams {
		f(d)
	}
}

// storedFile is a segment in the folder.
type storedFile struct {
	path  string
	bytes int64
}

// list returns all segments, the oldest first: their names begin with the time of their creation.
func (s *Store) list() (files []storedFile) {
	_ = filepath.WalkDir(s.folder, func(path string, x fs.DirEntry, err error) error {
		if err != nil || x.IsDir() || !isSegment(path) {
			return nil //nolint:nilerr // a folder that cannot be read has no segments
		}
		if info, err := x.Info(); err == nil {
			files = append(files, storedFile{path, info.Size()})
		}
		return nil
	})
	slices.SortFunc(files, func(a, b storedFile) int {
		return cmp.Compare(filepath.Base(a.path), filepath.Base(b.path))
	})
	return files
}

func isSegment(path string) bool {
	return strings.HasSuffix(path, openSuffix) || strings.HasSuffix(path, sealedSuffix)
}

// hasSegments reports whether the folder of a stream has a segment.
func hasSegments(folder string) bool {
	files, err := os.ReadDir(folder)
	return err != nil || slices.ContainsFunc(files, func(f fs.DirEntry) bool { return isSegment(f.Name()) })
}

func total(files []storedFile) (bytes int64) {
	for _, f := range files {
		bytes += f.bytes
	}
	return bytes
}

// segmentBytes returns the size at which a segment is sealed.
func (s *Store) segmentBytes() int64 {
	return min(max(s.maxBytes/segmentShare, minSegment), maxSegment)
}

// makeRoom deletes the oldest segments until another one fits. It reports whether one does.
func (s *Store) makeRoom() bool {
	files := s.list()
	used := total(files)
	bound := s.maxBytes
	if free, err := diskspace.Free(s.folder); err == nil {
		bound = min(bound, (free+used)/freeShare)
	}
	for used+s.segmentBytes() > bound && len(files) > 0 {
		err := os.Remove(files[0].path) // fails on Windows while a process reads it
		if dir := filepath.Dir(files[0].path); !hasSegments(dir) {
			_ = os.Remove(filepath.Join(dir, identityFile))
			_ = os.Remove(dir) // fails if another process has just begun a segment
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			used -= files[0].bytes
		}
		files = files[1:]
	}
	s.stats.bytes.Store(used)
	return used+s.segmentBytes() <= bound
}

// reportDamage counts a document that cannot be read.
func (s *Store) reportDamage(path string, err error) {
	s.stats.damaged.Add(1)
	s.warnDamaged.Do(func() {
		s.log.Warn("token store is damaged: its documents are tokenized again", "file", path, "error", err)
	})
}
