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

// gzipMembers reads the members of gzip data, as gzip -d does: zeros behind a member are padding, and anything else
// behind the last member is left out and counted. Data between two members, or a damaged member, is a *damageError;
// resume continues behind it.
type gzipMembers struct {
	r        *bufio.Reader
	z        *gzip.Reader
	trailing int64 // bytes behind the last member that are not gzip data
	offset   int64 // of what was returned
	member   int64 // offset at which the present member begins
	err      error // ends the reading; a *damageError until resume
}

// IsDamage reports whether an error of a Reader is damage behind which Reader.OnDamage continues.
func IsDamage(err error) bool {
	var damage *damageError
	return errors.As(err, &damage)
}

// damageError is damage behind which gzip data can be read on.
type damageError struct {
	err  error
	from int64 // what was returned from this offset on cannot be trusted
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
			g.err = g.next()
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

// next begins the next member. It returns io.EOF where there is none.
func (g *gzipMembers) next() error {
	if err := g.skipZeros(); err != nil {
		return err
	}
	if head, err := g.r.Peek(2); string(head) == gzipMagic[:2] {
		return g.begin()
	} else if err != nil && err != io.EOF {
		return err
	}
	n, err := g.seek()
	if err == io.EOF {
		g.trailing = n
	}
	if err != nil {
		return err
	}
	return &damageError{fmt.Errorf("%d bytes between two members are not gzip data", n), g.offset}
}

func (g *gzipMembers) begin() error {
	g.member = g.offset
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

// seek skips bytes up to the header of a member and returns their number, or io.EOF where no header follows.
func (g *gzipMembers) seek() (n int64, err error) {
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
		_, _ = g.r.Discard(skip) // it was peeked at
		n += int64(skip)
	}
}

// resume makes Read continue at the next member behind damage, and return io.EOF where no member follows.
func (g *gzipMembers) resume() {
	if _, g.err = g.seek(); g.err == nil {
		g.err = g.begin()
	}
}

const (
	gzipMagic  = "\x1f\x8b\x08"
	gzipHeader = 10
)

// isGzipHeader reports whether a member's fixed header is one that a compressor writes, which random bytes hardly are:
// reserved flags are 0, and the level and the system are among those of RFC 1952.
func isGzipHeader(head []byte) bool {
	return len(head) == gzipHeader && string(head[:3]) == gzipMagic && head[3]&0xe0 == 0 && head[8]&^6 == 0 &&
		(head[9] <= 13 || head[9] == 255)
}
