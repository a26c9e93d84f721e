package batch

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"loaderd/internal/api"
	"loaderd/loader/assembly"
)

// Encoder encodes the messages of one stream.
type Encoder struct {
	columns    []Column
	Sources    *Sources
	pool       *BufferPool
	schema     *arrow.Schema
	writer     *ipc.Writer
	wroteBatch bool       // the writer has written a batch
	messages   []*Message // messages that the writer has written since the last batch
}

// NewEncoder returns the encoder of a stream with these columns.
func NewEncoder(columns []Column, s *Sources, from *BufferPool) *Encoder {
	e := &Encoder{columns: columns, Sources: s, pool: from, schema: SchemaOf(columns)}
	e.writer = ipc.NewWriterWithPayloadWriter((*payloads)(e), ipc.WithSchema(e.schema))
	return e
}

// Schema returns the first message of the stream. It is sent before any step is ready, so that a client's call
// returns immediately.
func (e *Encoder) Schema() (*Message, error) {
	w := ipc.NewWriterWithPayloadWriter((*payloads)(e), ipc.WithSchema(e.schema))
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	schema := e.messages[0]
	e.messages = nil
	return schema, nil
}

// Encode encodes one record batch with its metadata, with an aligned body.
func (e *Encoder) Encode(b *assembly.Batch, m api.Metadata) (*Message, api.Metadata, error) {
	memory := &messageBuffers{pool: e.pool}
	l, err := newLayout(b, e.Sources, memory)
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
	last := len(e.messages) - 1
	out := e.messages[last]
	out.Dictionaries = e.messages[:last]
	if !e.wroteBatch { // the writer's first record repeats the schema message
		out.Dictionaries, e.wroteBatch = out.Dictionaries[1:], true
	}
	e.messages = nil // release them before the wait for the next batch
	out.buffers, out.metadata = memory, encodeMetadata(m)
	out.alignBody()
	return out, m, nil
}

// payloads collects the payloads of the encoder's writer as messages.
type payloads Encoder

func (p *payloads) Start() error { return nil }
func (p *payloads) Close() error { return nil }

func (p *payloads) WritePayload(payload ipc.Payload) error {
	m := &Message{header: payload.Meta().Bytes()}
	p.messages = append(p.messages, m)
	return payload.SerializeBody(m)
}
