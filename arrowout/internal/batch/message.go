package batch

import (
	"bytes"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"loaderd/arrowout/internal/session"
)

// Message is a FlightData whose body is a list of borrowed slices. gRPC may still use them after a send has returned.
// gRPC reports their release to the charge, unless the connection has ended. Then the memory of the loan is reused;
// the garbage collector frees all other memory.
type Message struct {
	header   []byte // Arrow IPC message
	metadata []byte // app_metadata, nil for none
	body     [][]byte
	bodyLen  int
	Charge   *session.Charge // its memory; nil for a schema
	buffers  *messageBuffers // memory of the body that is reused after release; nil for a schema
	// Dictionaries are sent before the message, for columns that have them. They have no loan.
	Dictionaries []*Message
}

// Field numbers of FlightData in Flight.proto.
const (
	fieldHeader   = 2
	fieldMetadata = 3
	fieldBody     = 1000
)

// alignment is the alignment of a message's body within the bytes of the message. So every column is aligned for a
// client that maps a message's buffers instead of copying them.
const alignment = 64

// Size returns the bytes of the message and its dictionaries on the wire, without gRPC's framing.
func (m *Message) Size() int {
	n := m.preambleSize(len(m.metadata)) + m.bodyLen
	for _, d := range m.Dictionaries {
		n += d.Size()
	}
	return n
}

// preambleSize returns the number of bytes before the body if the metadata has the given length.
func (m *Message) preambleSize(metadata int) int {
	n := protowire.SizeTag(fieldHeader) + protowire.SizeBytes(len(m.header))
	if metadata > 0 {
		n += protowire.SizeTag(fieldMetadata) + protowire.SizeBytes(metadata)
	}
	if m.bodyLen > 0 {
		n += protowire.SizeTag(fieldBody) + protowire.SizeVarint(uint64(m.bodyLen))
	}
	return n
}

// alignBody appends spaces, which JSON allows, to the metadata until the start of the body is a multiple of alignment.
// The metadata's length prefix may grow by a byte and skip one residue; the next turn of 64 reaches it.
func (m *Message) alignBody() {
	k := 0
	for m.preambleSize(len(m.metadata)+k)%alignment != 0 {
		k++
	}
	m.metadata = append(m.metadata, bytes.Repeat([]byte{' '}, k)...)
}

// minTrackedCapacity is the minimum capacity of a buffer whose release gRPC reports.
const minTrackedCapacity = 1<<10 + 1

// marshal returns the message as gRPC sends it.
func (m *Message) marshal() mem.BufferSlice {
	b := make([]byte, 0, max(m.preambleSize(len(m.metadata)), minTrackedCapacity))
	b = protowire.AppendTag(b, fieldHeader, protowire.BytesType)
	b = protowire.AppendBytes(b, m.header)
	if len(m.metadata) > 0 {
		b = protowire.AppendTag(b, fieldMetadata, protowire.BytesType)
		b = protowire.AppendBytes(b, m.metadata)
	}
	if m.bodyLen > 0 {
		b = protowire.AppendTag(b, fieldBody, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(m.bodyLen))
	}
	slices := append([][]byte{b}, mergeSmall(m.body)...)
	out := make(mem.BufferSlice, 0, len(slices))
	if m.Charge == nil {
		for _, s := range slices {
			out = append(out, mem.SliceBuffer(s))
		}
		return out
	}
	m.Charge.HandOver(len(slices), m.buffers.release)
	for _, s := range slices {
		out = append(out, mem.NewBuffer(&s, m.Charge))
	}
	return out
}

// mergeSmall merges adjacent slices whose release gRPC would not report into larger ones, and keeps all other slices.
func mergeSmall(body [][]byte) [][]byte {
	var out [][]byte
	open := false // the last slice consists of small ones
	for _, s := range body {
		switch {
		case cap(s) >= minTrackedCapacity:
			out, open = append(out, s), false
		case open && len(out[len(out)-1])+len(s) <= cap(out[len(out)-1]):
			out[len(out)-1] = append(out[len(out)-1], s...)
		case len(s) > 0:
			out, open = append(out, append(make([]byte, 0, minTrackedCapacity), s...)), true
		}
	}
	return out
}

// Write appends a borrowed slice to the body. An Arrow payload is serialized by calls of Write.
func (m *Message) Write(p []byte) (int, error) {
	m.body = append(m.body, p)
	m.bodyLen += len(p)
	return len(p), nil
}

// codec is gRPC's protobuf codec, except that it passes a *Message to the transport without copying its body.
type codec struct{ encoding.CodecV2 }

// NewCodec returns the codec.
func NewCodec() encoding.CodecV2 { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*Message); ok {
		return m.marshal(), nil
	}
	return c.CodecV2.Marshal(v)
}
