package tokenfiles

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// NPYMagic starts a NumPy file.
const NPYMagic = "\x93NUMPY"

// maxNPYHeader bounds the header, which has a type name and a shape.
const maxNPYHeader = 64 << 10

var (
	npyType  = regexp.MustCompile(`'descr':\s*'([<>|=])([a-zA-Z])(\d+)'`)
	npyOrder = regexp.MustCompile(`'fortran_order':\s*(True|False)`)
	npyShape = regexp.MustCompile(`'shape':\s*\(([0-9, ]*)\)`)
)

// NewNPYStream reads an array of ids in either byte order. A one-dimensional array is split as c specifies. In a
// two-dimensional array each row is a document, which c may split further.
func NewNPYStream(r io.Reader, c Boundaries) (*Stream, error) {
	buffered := bufio.NewReaderSize(r, 1<<16)
	header, err := npyHeader(buffered)
	if err != nil {
		return nil, err
	}
	s := &Stream{r: buffered, boundaries: c}
	if s.typ, err = npyTypeOf(header); err != nil {
		return nil, err
	}
	shape, err := npyShapeOf(header)
	if err != nil {
		return nil, err
	}
	switch order := npyOrder.FindStringSubmatch(header); {
	case order == nil:
		return nil, errors.New("its NumPy header does not state the order of its values")
	case len(shape) == 0 || len(shape) > 2:
		return nil, fmt.Errorf("its array has %d dimensions: want 1, or 2 with a document in each row", len(shape))
	case len(shape) == 2 && order[1] == "True":
		return nil, errors.New("its array lies column by column: save it with np.ascontiguousarray")
	case len(shape) == 1 && !c.isSet():
		return nil, ErrNoBoundaries
	}
	s.total = 1
	for _, n := range shape {
		if n > 0 && s.total > math.MaxInt64/8/n {
			return nil, errors.New("its NumPy header names a shape that is out of range")
		}
		s.total *= n
	}
	if len(shape) == 2 {
		s.rowLength = shape[1]
	}
	return s, nil
}

func npyHeader(r io.Reader) (string, error) {
	var fixed [10]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return "", truncatedError("its NumPy header", err)
	}
	if string(fixed[:6]) != NPYMagic {
		return "", errors.New("it does not begin as a NumPy file does")
	}
	length := int64(binary.LittleEndian.Uint16(fixed[8:]))
	switch fixed[6] {
	case 1:
	case 2, 3:
		var high [2]byte
		if _, err := io.ReadFull(r, high[:]); err != nil {
			return "", truncatedError("its NumPy header", err)
		}
		length |= int64(binary.LittleEndian.Uint16(high[:])) << 16
	default:
		return "", fmt.Errorf("version %d of NumPy's format is not known", fixed[6])
	}
	if length > maxNPYHeader {
		return "", fmt.Errorf("its NumPy header has %d bytes, at most %d are allowed", length, maxNPYHeader)
	}
	header := make([]byte, length)
	if _, err := io.ReadFull(r, header); err != nil {
		return "", truncatedError("its NumPy header", err)
	}
	return string(header), nil
}

func npyTypeOf(header string) (Type, error) {
	found := npyType.FindStringSubmatch(header)
	if found == nil {
		return Type{}, errors.New("its NumPy header names no plain type: want integers")
	}
	name := map[string]string{"u": "uint", "i": "int"}[found[2]]
	bytes, _ := strconv.Atoi(found[3]) // digits; a number that is too large matches no type
	t, err := TypeOf(name + strconv.Itoa(8*bytes))
	if name == "" || err != nil {
		return Type{}, fmt.Errorf("its values are %s%s%s, want integers of token ids", found[1], found[2], found[3])
	}
	t.bigEndian = found[1] == ">"
	return t, nil
}

func npyShapeOf(header string) (shape []int64, err error) {
	found := npyShape.FindStringSubmatch(header)
	if found == nil {
		return nil, errors.New("its NumPy header names no shape")
	}
	for part := range strings.SplitSeq(found[1], ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return nil, errors.New("its NumPy header names a shape that is out of range")
		}
		shape = append(shape, n)
	}
	return shape, nil
}
