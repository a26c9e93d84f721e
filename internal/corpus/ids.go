package corpus

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"loaderd/internal/tokenfiles"
)

// idDocuments is what reads documents of token ids.
type idDocuments interface {
	Next(dst []byte, limit int64) ([]byte, error)
}

// tokens yields the documents of a file of token ids.
func (in *Input) tokens(s source, r io.Reader, yield yielder) bool {
	o := in.options
	if o.IDField != "" {
		return yield(Document{}, fmt.Errorf("read %s: %w", s.origin, errNoFields)) && false
	}
	if err := checkMask(s.name()); err != nil {
		return yield(Document{}, fmt.Errorf("read %s: %w", s.origin, err)) && false
	}
	buffered := bufio.NewReaderSize(r, 1<<16)
	head, err := buffered.Peek(len(tokenfiles.NPYMagic) + 6)
	var d *tokenfiles.Stream
	switch {
	case err != nil && err != io.EOF:
	case len(head) == 0:
		return true
	case s.companions != (companions{}) && o.TokenType.Size > 0 && !bytes.HasPrefix(head, []byte(tokenfiles.NPYMagic)):
		return in.annotated(s, buffered, yield)
	case s.mask != "":
		err = fmt.Errorf("it has a label mask (%s), which is read with ids without a header alone, by --token-type", s.mask)
	case string(head[:min(len(head), len(tokenfiles.NPYMagic))]) == tokenfiles.NPYMagic:
		d, err = tokenfiles.NPY(buffered, o.Cut)
	case tokenfiles.IsLLMC(head):
		d, err = tokenfiles.LLMC(buffered, o.Cut)
	case o.TokenType.Size == 0:
		err = errNoHeader
	default:
		d, err = tokenfiles.Raw(buffered, o.TokenType, o.Cut)
	}
	if err != nil {
		return yield(Document{}, fmt.Errorf("read %s: %w", s.origin, withCutFlags(err))) && false
	}
	return in.ids(s, d, yield, func() {}, nil)
}

// withCutFlags names the flags that are missing where nothing says where documents end.
func withCutFlags(err error) error {
	if errors.Is(err, tokenfiles.ErrNoCut) {
		return fmt.Errorf("%w (--end-token, --begin-token)", err)
	}
	return err
}

// errNoFields: a file of ids has nothing beside them.
var errNoFields = errors.New("its documents are token ids alone, and have no ids of their own: leave --id-column out")

// ids yields documents by their places. passed is called behind each. loss returns Document.Loss of the last one; nil: all of its tokens have a loss.
func (in *Input) ids(s source, d idDocuments, yield yielder, passed func(), loss func() []int32) bool {
	for place := 0; ; place++ {
		data, err := d.Next(nil, in.options.MaxDocument)
		passed()
		var bad *tokenfiles.DocumentError
		more := false
		switch {
		case err == io.EOF:
			return true
		case errors.As(err, &bad):
			reason := BadRecord
			if bad.TooLarge {
				reason = TooLarge
			}
			more = s.skip(yield, int64(place)+1, &badRecord{reason, err})
		case err != nil:
			return yield(Document{}, fmt.Errorf("read %s: %w", s.origin, err)) && false
		default:
			doc := Document{Label: short(s.given + ":" + strconv.Itoa(place)), Data: data}
			if loss != nil {
				doc.Loss = loss()
			}
			more = s.give(yield, doc)
		}
		if !more {
			return false
		}
	}
}

// megatron yields the documents of a pair of files.
func (in *Input) megatron(s source, yield yielder) (more bool) {
	fail := func(err error) bool { return yield(Document{}, fmt.Errorf("read %s: %w", s.origin, err)) && false }
	if in.options.IDField != "" {
		return fail(errNoFields)
	}
	idx, idxSize, err := openWhole(s.origin)
	if err != nil {
		return fail(err)
	}
	defer idx.Close() // nothing was written
	bin, binSize, err := openWhole(s.bin)
	if err != nil {
		return fail(err)
	}
	defer bin.Close() // nothing was written
	m, err := tokenfiles.OpenMegatron(idx, idxSize, bin, binSize)
	if err != nil {
		return fail(err)
	}
	in.read.Store(idxSize)
	return in.ids(s, m, yield, func() { in.read.Store(idxSize + m.At()) }, nil)
}

// openWhole opens a file that is read here and there.
func openWhole(name string) (*os.File, int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// known leaves out documents with ids that the vocabulary does not have.
func (o Options) known(yield yielder) yielder {
	if o.Vocabulary == 0 {
		return yield
	}
	return func(d Document, err error) bool {
		for i := 0; err == nil && i+4 <= len(d.Data); i += 4 {
			if id := binary.LittleEndian.Uint32(d.Data[i:]); int64(id) >= int64(o.Vocabulary) {
				err = &SkipError{Reason: BadRecord, Path: d.Path, Origin: d.Origin, Err: fmt.Errorf("document %s: token %d has the id %d, the tokenizer's vocabulary has %d",
					d.Label, i/4, id, o.Vocabulary)}
				d = Document{}
			}
		}
		return yield(d, err)
	}
}
