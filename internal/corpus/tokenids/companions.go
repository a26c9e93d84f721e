package tokenids

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"loaderd/internal/corpus/compression"
	"loaderd/internal/corpus/record"
	"loaderd/internal/tokenfiles"
)

// Companions are the files that OLMo-core and dolma write next to a file of token ids without a header (.npy).
type Companions struct {
	Mask   string // which tokens have a loss: a byte of 0 or 1 per token; empty for none
	Bounds string // document boundaries: CSV of start, end, ...; empty for none
}

// maskNames maps the prefix of a label mask's name to the possible prefixes of its token file.
var maskNames = map[string][]string{"labels_mask": {"token_ids", "input_ids"}, "label_mask": {"token_ids", "input_ids"}}

const (
	idsExtension    = ".npy"
	boundsExtension = ".csv.gz"
)

// isMask reports whether a file name is that of a label mask. ids are the possible names of its token file.
func isMask(name string) (ids []string, ok bool) {
	folder, base := filepath.Split(name)
	for mask, names := range maskNames {
		if rest, found := strings.CutPrefix(base, mask); found && strings.HasSuffix(base, idsExtension) {
			for _, n := range names {
				ids = append(ids, folder+n+rest)
			}
			return ids, true
		}
	}
	return nil, false
}

// FindCompanions finds the companions of a file of token ids.
func FindCompanions(name string) (c Companions) {
	trunk, ok := strings.CutSuffix(name, idsExtension)
	if !ok {
		return c
	}
	if bounds := trunk + boundsExtension; isBounds(bounds) {
		c.Bounds = bounds
	}
	folder, base := filepath.Split(name)
	for mask, names := range maskNames {
		for _, n := range names {
			rest, found := strings.CutPrefix(base, n)
			if !found {
				continue
			}
			if _, err := os.Stat(folder + mask + rest); err == nil {
				c.Mask = folder + mask + rest
			}
		}
	}
	return c
}

// IsCompanion reports whether a file is a companion of a token file that exists: it is read with that file.
func IsCompanion(name string) bool {
	ids, _ := isMask(name)
	if trunk, ok := strings.CutSuffix(name, boundsExtension); ok && isBounds(name) {
		ids = append(ids, trunk+idsExtension)
	}
	for _, name := range ids {
		if _, err := os.Stat(name); err == nil {
			return true
		}
	}
	return false
}

// CheckMask returns an error for a label mask that would be read as token ids.
func CheckMask(name string) error {
	ids, ok := isMask(name)
	if !ok {
		return nil
	}
	return fmt.Errorf(
		"it is the label mask of a file of token ids: import that file (%s) or their folder, from a local disk",
		filepath.Base(ids[0]))
}

// isBounds reports whether a file starts like document boundaries.
func isBounds(name string) bool {
	b, err := openBounds(name)
	if err != nil {
		return false
	}
	defer b.close() //nolint:errcheck // it is only read
	n, err := b.next()
	return err == nil && n >= 0
}

// boundaryReader reads document boundaries.
type boundaryReader struct {
	name      string
	lines     *csv.Reader
	close     func() error
	nextStart int64 // start of the next document
}

func openBounds(name string) (*boundaryReader, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	d, err := compression.NewReader(name, f, f.Close)
	if err != nil {
		return nil, err
	}
	lines := csv.NewReader(d)
	lines.ReuseRecord, lines.FieldsPerRecord = true, -1
	return &boundaryReader{name: name, lines: lines, close: d.Close}, nil
}

// next returns the length of the next document in tokens, io.EOF after the last one.
func (b *boundaryReader) next() (int64, error) {
	fields, err := b.lines.Read()
	if err == io.EOF {
		return 0, io.EOF
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", b.name, err)
	}
	line, _ := b.lines.FieldPos(0)
	if len(fields) < 2 {
		return 0, fmt.Errorf("read %s: line %d: want the columns start and end", b.name, line)
	}
	start, startErr := strconv.ParseInt(fields[0], 10, 64)
	end, endErr := strconv.ParseInt(fields[1], 10, 64)
	if err := errors.Join(startErr, endErr); err != nil {
		return 0, fmt.Errorf("read %s: line %d: %w", b.name, line, err)
	}
	if start != b.nextStart || end < start {
		return 0, fmt.Errorf("read %s: line %d: a document from token %d to %d follows one that ends at %d", b.name, line,
			start, end, b.nextStart)
	}
	b.nextStart = end
	return end - start, nil
}

// maskedReader reads documents of ids with their label mask.
type maskedReader struct {
	documentReader
	mask *bufio.Reader
	loss []int32 // of the last document, as in Document.Loss
}

// Next reads the ids of the next document and stores its loss runs.
func (m *maskedReader) Next(dst []byte, limit int64) ([]byte, error) {
	data, err := m.documentReader.Next(dst, limit)
	if err == io.EOF {
		if _, err := m.mask.ReadByte(); err != io.EOF {
			return data, errors.Join(err, errors.New("its label mask has more values than it has tokens"))
		}
		return data, io.EOF
	}
	tokens := int64(len(data)-len(dst)) / 4
	var bad *tokenfiles.DocumentError
	switch {
	case errors.As(err, &bad):
		tokens = bad.Tokens
	case err != nil:
		return data, err
	}
	loss, maskErr := m.readRuns(tokens)
	if maskErr != nil {
		return data, maskErr
	}
	m.loss = loss
	return data, err
}

// readRuns reads the mask of a document as lengths of runs, starting with a run that has a loss.
func (m *maskedReader) readRuns(tokens int64) ([]int32, error) {
	lengths, loss := []int32{0}, byte(1)
	for i := range tokens {
		flag, err := m.mask.ReadByte()
		switch {
		case err == io.EOF:
			return nil, errors.New("its label mask has fewer values than it has tokens: is the type of its ids right?")
		case err != nil:
			return nil, err
		case flag > 1:
			return nil, fmt.Errorf("its label mask has the value %d for token %d of a document: want 0 or 1", flag, i)
		case flag != loss:
			lengths, loss = append(lengths, 0), flag
		}
		if last := &lengths[len(lengths)-1]; *last < math.MaxInt32 {
			*last++
		}
	}
	return lengths, nil
}

// companionDocuments yields the documents of a file of ids without a header that has companions.
func (s Source) companionDocuments(r io.Reader, yield record.Yield) bool {
	fail := func(err error) bool { return s.File.Fail(yield, err) }
	var d documentReader
	if s.Bounds != "" {
		b, err := openBounds(s.Bounds)
		if err != nil {
			return fail(err)
		}
		defer b.close() //nolint:errcheck // it is only read
		d = tokenfiles.NewSizedStream(r, s.Type, b.next)
	} else {
		raw, err := tokenfiles.NewRawStream(r, s.Type, s.Boundaries)
		if err != nil {
			return fail(withBoundaryFlags(err))
		}
		d = raw
	}
	if s.Mask == "" {
		return yieldDocuments(s.File, s.Columns, 0, d, yield, func() {}, nil)
	}
	f, err := os.Open(s.Mask)
	if err != nil {
		return fail(err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	m := &maskedReader{documentReader: d, mask: bufio.NewReaderSize(f, 1<<16)}
	return yieldDocuments(s.File, s.Columns, 0, m, yield, func() {}, func() []int32 { return m.loss })
}
