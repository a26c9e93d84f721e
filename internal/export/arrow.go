package export

import (
	"errors"
	"os"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
)

// arrowFile is an uncompressed Arrow IPC file, which can be memory-mapped.
type arrowFile struct {
	file *os.File
	out  *ipc.FileWriter
}

func newArrow(name string, schema *arrow.Schema) (writer, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	out, err := ipc.NewFileWriter(file, ipc.WithSchema(schema))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &arrowFile{file, out}, nil
}

func (a *arrowFile) Write(r arrow.Record) error { return a.out.Write(r) }

func (a *arrowFile) Close() error { return errors.Join(a.out.Close(), a.file.Sync(), a.file.Close()) }
