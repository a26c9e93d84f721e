package columnfile

import (
	"context"
	"io"

	"github.com/apache/thrift/lib/go/thrift"
)

// compactReader reads Thrift's compact protocol field by field: footers and headers of pages. It holds one value at a
// time, so its memory is bounded by the available bytes.
type compactReader struct{ *thrift.TCompactProtocol }

// newCompactReader returns a reader of r. It reads ahead unless r is a *bufio.Reader.
func newCompactReader(r io.Reader) compactReader {
	return compactReader{thrift.NewTCompactProtocolConf(thrift.NewStreamTransportR(r), nil)}
}

// readFields calls f with every field of a struct; f reads the field or calls skip.
func (c compactReader) readFields(f func(id int16, kind thrift.TType) error) error {
	ctx := context.Background()
	if _, err := c.ReadStructBegin(ctx); err != nil {
		return err
	}
	for {
		_, kind, id, err := c.ReadFieldBegin(ctx)
		if err != nil {
			return err
		}
		if kind == thrift.STOP {
			return c.ReadStructEnd(ctx)
		}
		if err := f(id, kind); err != nil {
			return err
		}
	}
}

// skip reads past a field.
func (c compactReader) skip(kind thrift.TType) error { return c.Skip(context.Background(), kind) }

// readNumber reads a 32-bit integer.
func (c compactReader) readNumber() (int64, error) {
	v, err := c.ReadI32(context.Background())
	return int64(v), err
}
