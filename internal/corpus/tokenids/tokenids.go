// Package tokenids reads documents from files of token ids: NumPy's, those of llm.c, ids without a header with the
// label mask and the document boundaries that OLMo-core and dolma write, and Megatron's pairs.
package tokenids

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"loaderd/internal/corpus/record"
	"loaderd/internal/tokenfiles"
)

// documentReader reads documents of token ids.
type documentReader interface {
	Next(dst []byte, limit int64) ([]byte, error)
}

// Source reads documents of a file of token ids.
type Source struct {
	File    record.File
	Columns record.Columns
	// Name is the path of the file, used to recognise a label mask.
	Name string
	// Companions of the file.
	Companions
	// Type is the type of ids without a header. Cut determines where documents end.
	Type       tokenfiles.Type
	Boundaries tokenfiles.Boundaries
}

// Documents yields the documents of the file, which r reads. It returns whether the iteration continues.
func (s Source) Documents(r io.Reader, yield record.Yield) bool {
	if s.Columns.ID != "" {
		return s.File.Fail(yield, errNoFields)
	}
	if err := CheckMask(s.Name); err != nil {
		return s.File.Fail(yield, err)
	}
	buffered := bufio.NewReaderSize(r, 1<<16)
	head, err := buffered.Peek(len(tokenfiles.NPYMagic) + 6)
	var d *tokenfiles.Stream
	switch {
	case err != nil && err != io.EOF:
	case len(head) == 0:
		return true
	case s.Companions != (Companions{}) && s.Type.Size > 0 && !bytes.HasPrefix(head, []byte(tokenfiles.NPYMagic)):
		return s.companionDocuments(buffered, yield)
	case s.Mask != "":
		err = fmt.Errorf(
			"it has a label mask (%s), which needs ids without a header and --token-type", s.Mask)
	case string(head[:min(len(head), len(tokenfiles.NPYMagic))]) == tokenfiles.NPYMagic:
		d, err = tokenfiles.NewNPYStream(buffered, s.Boundaries)
	case tokenfiles.IsLLMC(head):
		d, err = tokenfiles.NewLLMCStream(buffered, s.Boundaries)
	case s.Type.Size == 0:
		err = ErrNoHeader
	default:
		d, err = tokenfiles.NewRawStream(buffered, s.Type, s.Boundaries)
	}
	if err != nil {
		return s.File.Fail(yield, withBoundaryFlags(err))
	}
	return yieldDocuments(s.File, s.Columns, 0, d, yield, func() {}, nil)
}

// withBoundaryFlags adds the missing flags to the error for undetermined document ends.
func withBoundaryFlags(err error) error {
	if errors.Is(err, tokenfiles.ErrNoBoundaries) {
		return fmt.Errorf("%w (--end-token, --begin-token)", err)
	}
	return err
}

// errNoFields is the error for a requested id column: a file of ids has no other columns.
var errNoFields = errors.New("its documents have only token ids, and no document ids: remove --id-column")

// yieldDocuments yields documents with their positions, from first on. It calls passed before each. loss returns
// Document.Loss of the last one. If it is nil, all tokens have a loss.
func yieldDocuments(f record.File, cols record.Columns, first int64, d documentReader, yield record.Yield,
	passed func(), loss func() []int32) bool {
	for place := first; ; place++ {
		data, err := d.Next(nil, cols.MaxDocument)
		passed()
		var bad *tokenfiles.DocumentError
		more := false
		switch {
		case err == io.EOF:
			return true
		case errors.As(err, &bad):
			reason := record.Invalid
			if bad.TooLarge {
				reason = record.TooLarge
			}
			more = f.Skip(yield, place+1, record.WithReason(reason, err))
		case err != nil:
			return f.Fail(yield, err)
		default:
			doc := record.Document{Label: record.CleanLabel(f.UserPath + ":" + strconv.FormatInt(place, 10)), Data: data}
			if loss != nil {
				doc.Loss = loss()
			}
			more = f.Emit(yield, doc)
		}
		if !more {
			return false
		}
	}
}

// RandomFile is a file that is read at any offset.
type RandomFile struct {
	io.ReaderAt
	Size  int64
	Close func() error
}

// MegatronPair reads documents from a Megatron index and the file of its ids.
type MegatronPair struct {
	File               record.File // of the index
	Columns            record.Columns
	OpenIndex, OpenIDs func() (RandomFile, error)
	// Start is how many first documents are not read.
	Start int64
	// OnRead is called with the number of bytes of both files that have been read, and OnDocument with the number of
	// documents up to the one that follows.
	OnRead, OnDocument func(n int64)
}

// Documents yields the documents of the pair. It returns whether the iteration continues.
func (p MegatronPair) Documents(yield record.Yield) (more bool) {
	fail := func(err error) bool { return p.File.Fail(yield, err) }
	if p.Columns.ID != "" {
		return fail(errNoFields)
	}
	idx, err := p.OpenIndex()
	if err != nil {
		return fail(err)
	}
	defer idx.Close() //nolint:errcheck // it is only read
	bin, err := p.OpenIDs()
	if err != nil {
		return fail(err)
	}
	defer bin.Close() //nolint:errcheck // it is only read
	m, err := tokenfiles.OpenMegatron(idx, idx.Size, bin, bin.Size)
	if err == nil {
		err = m.Skip(p.Start)
	}
	if err != nil {
		return fail(err)
	}
	p.OnRead(idx.Size)
	place := p.Start
	return yieldDocuments(p.File, p.Columns, p.Start, m, yield, func() {
		p.OnRead(idx.Size + m.Offset())
		place++
		p.OnDocument(place)
	}, nil)
}

// ErrNoHeader is the error for ids without a header and of unknown type. The extension .npy is used for them, too.
var ErrNoHeader = errors.New("it has no NumPy header: if it contains only token ids, as in OLMo-core, " +
	"set --token-type uint16 or uint32, and --end-token")
