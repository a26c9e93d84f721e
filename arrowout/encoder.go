package arrowout

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"loaderd/internal/api"
	"loaderd/loader/assembly"
)

// encoder makes the messages of one stream.
type encoder struct {
	columns []column
	sources *sources
	buffers *buffers
	schema  *arrow.Schema
	writer  *ipc.Writer
	began   bool       // the writer has written a batch
	written []*message // by the writer, since the last batch
}

func newEncoder(columns []column, s *sources, from *buffers) *encoder {
	e := &encoder{columns: columns, sources: s, buffers: from, schema: schemaOf(columns)}
	e.writer = ipc.NewWriterWithPayloadWriter((*payloads)(e), ipc.WithSchema(e.schema))
	return e
}

// schemaMessage is the stream's first message. It is sent before any step is ready, so that a client's call returns at once.
func (e *encoder) schemaMessage() (*message, error) {
	w := ipc.NewWriterWithPayloadWriter((*payloads)(e), ipc.WithSchema(e.schema))
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	schema := e.written[0]
	e.written = nil
	return schema, nil
}

// batch is one record batch with its metadata, the body aligned.
func (e *encoder) batch(b *assembly.Batch, m api.Metadata) (*message, api.Metadata, error) {
	memory := &loan{from: e.buffers}
	l, err := newLayout(b, e.sources, memory)
	if err != nil {
		return nil, m, err
	}
	countBatch(&m, l)
	built := make([]arrow.Array, len(e.columns))
	for i, c := range e.columns {
		data, err := c.build(l)
		if err != nil {
			return nil, m, err
		}
		built[i] = array.MakeFromData(data)
	}
	if err := e.writer.Write(array.NewRecord(e.schema, built, int64(b.Rows))); err != nil {
		return nil, m, fmt.Errorf("encode step %d: %w", b.Step, err)
	}
	last := len(e.written) - 1
	out := e.written[last]
	out.dictionaries = e.written[:last]
	if !e.began { // the writer's first record brings the schema's message along a second time
		out.dictionaries, e.began = out.dictionaries[1:], true
	}
	e.written = nil // it would live as long as the next batch is waited for
	out.loan, out.metadata = memory, encodeMetadata(m)
	out.align()
	return out, m, nil
}

// payloads keeps the payloads that the encoder's writer writes as messages.
type payloads encoder

func (p *payloads) Start() error { return nil }
func (p *payloads) Close() error { return nil }

func (p *payloads) WritePayload(payload ipc.Payload) error {
	m := &message{header: payload.Meta().Bytes()}
	p.written = append(p.written, m)
	return payload.SerializeBody(m)
}
