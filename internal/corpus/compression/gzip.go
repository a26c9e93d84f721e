package compression

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

// gzipMembers reads the members of gzip data, as gzip -d does. Zeros after a member are padding, and other data after
// the last member is ignored and counted. Data between two members, or a damaged member, is a *damageError; resume
// continues after it.
type gzipMembers struct {
	r        *bufio.Reader
	z        *gzip.Reader
	trailing int64 // bytes after the last member that are not gzip data
	offset   int64 // offset of the returned data
	member   int64 // offset at which the current member starts
	stored   *storedReader
	starts   []memberStart // of members, if they are tracked
	track    bool
	err      error // ends the reading; a *damageError lasts until resume
}

// memberStart is where a member starts: in the returned data, and in the file.
type memberStart struct{ data, stored int64 }

// maxStarts bounds the starts of members whose data was read ahead.
const maxStarts = 1 << 16

// storedReader counts the bytes of a file that were read.
type storedReader struct {
	r io.Reader
	n int64
}

func (s *storedReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	return n, err
}

// addStart tracks the start of the next member.
func (g *gzipMembers) addStart() {
	if !g.track {
		return
	}
	start := memberStart{g.offset, g.stored.n - int64(g.r.Buffered())}
	if n := len(g.starts); n > 0 && g.starts[n-1].data == start.data {
		g.starts = g.starts[:n-1] // an empty member
	} else if n == maxStarts {
		g.starts = append(g.starts[:0], g.starts[n/2:]...)
	}
	g.starts = append(g.starts, start)
}

// TrackMembers makes MemberAt find the first member of gzip data, and those that later calls of Read reach.
func (d *Reader) TrackMembers() {
	if members, ok := d.r.(*gzipMembers); ok {
		members.track = true
		members.starts = []memberStart{{}}
	}
}

// MemberAt returns the offset in the file of the gzip member whose data starts at an offset of the data. ok is false if
// none starts there. Offsets must not decrease from call to call.
func (d *Reader) MemberAt(offset int64) (stored int64, ok bool) {
	members, is := d.r.(*gzipMembers)
	if !is {
		return 0, false
	}
	passed := 0
	for passed < len(members.starts) && members.starts[passed].data < offset {
		passed++
	}
	members.starts = members.starts[passed:]
	if len(members.starts) == 0 || members.starts[0].data != offset {
		return 0, false
	}
	return members.starts[0].stored, true
}

// IsDamage reports whether an error of a Reader is damage after which Reader.OnDamage continues.
func IsDamage(err error) bool {
	var damage *damageError
	return errors.As(err, &damage)
}

// damageError is damage after which reading of gzip data can continue.
type damageError struct {
	err  error
	from int64 // data returned from this offset on is untrusted
}

func (e *damageError) Error() string { return e.err.Error() }
func (e *damageError) Unwrap() error { return e.err }

func newGzipMembers(r *bufio.Reader) (*gzipMembers, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return &gzipMembers{r: r, z: z}, nil
}

func (g *gzipMembers) Read(p []byte) (int, error) {
	for g.err == nil {
		n, err := g.z.Read(p)
		g.offset += int64(n)
		var corrupt flate.CorruptInputError
		switch {
		case err == io.EOF:
			g.err = g.nextMember()
		case errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
			g.err = &damageError{err, g.member}
		default:
			g.err = err
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, g.err
}

// nextMember starts the next member. It returns io.EOF if none follows.
func (g *gzipMembers) nextMember() error {
	if err := g.skipZeros(); err != nil {
		return err
	}
	if head, err := g.r.Peek(2); string(head) == gzipMagic[:2] {
		return g.startMember()
	} else if err != nil && err != io.EOF {
		return err
	}
	n, err := g.findMember()
	if err == io.EOF {
		g.trailing = n
	}
	if err != nil {
		return err
	}
	return &damageError{fmt.Errorf("%d bytes between two members are not gzip data", n), g.offset}
}

func (g *gzipMembers) startMember() error {
	g.member = g.offset
	g.addStart()
	err := g.z.Reset(g.r)
	g.z.Multistream(false)
	switch {
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	case errors.Is(err, gzip.ErrHeader):
		return &damageError{err, g.offset}
	}
	return err
}

func (g *gzipMembers) skipZeros() error {
	for {
		b, err := g.r.ReadByte()
		if err != nil {
			return err
		}
		if b != 0 {
			return g.r.UnreadByte()
		}
	}
}

// findMember skips bytes up to the header of a member and returns their number, or io.EOF where no header follows.
func (g *gzipMembers) findMember() (n int64, err error) {
	for {
		head, err := g.r.Peek(gzipHeader)
		if isGzipHeader(head) {
			return n, nil
		}
		if len(head) == 0 {
			return n, err
		}
		skip := bytes.IndexByte(head[1:], gzipMagic[0]) + 1
		if skip == 0 {
			skip = len(head)
		}
		_, _ = g.r.Discard(skip) // already peeked
		n += int64(skip)
	}
}

// resumeAfterDamage makes Read continue at the next member after damage, and return io.EOF if no member follows.
func (g *gzipMembers) resumeAfterDamage() {
	if _, g.err = g.findMember(); g.err == nil {
		g.err = g.startMember()
	}
}

const (
	gzipMagic  = "\x1f\x8b\x08"
	gzipHeader = 10
)

// isGzipHeader reports whether the fixed header of a member is one that a compressor writes, which is unlikely for
// random bytes. Reserved flags are 0, and the level and the system are among those of RFC 1952.
func isGzipHeader(head []byte) bool {
	return len(head) == gzipHeader && string(head[:3]) == gzipMagic && head[3]&0xe0 == 0 && head[8]&^6 == 0 &&
		(head[9] <= 13 || head[9] == 255)
}
