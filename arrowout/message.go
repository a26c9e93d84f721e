package arrowout

import (
	"bytes"

	"loaderd/arrowout/internal/session"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// message is a FlightData whose body is a list of borrowed slices. gRPC may still hold them after a send has returned. A
// message with a charge hears when gRPC lets go of them, unless the connection has ended; what is of a loan is used again then, all else belongs to the
// garbage collector.
type message struct {
	header   []byte // Arrow IPC message
	metadata []byte // app_metadata, nil for none
	body     [][]byte
	bodyLen  int
	charge   *session.Charge // its memory; nil for a schema
	loan     *loan           // memory of the body that others may have behind it; nil for a schema
	// dictionaries go before it: of record batches with columns that have some. They hold nothing of their own.
	dictionaries []*message
}

// Field numbers of FlightData in Flight.proto.
const (
	fieldHeader   = 2
	fieldMetadata = 3
	fieldBody     = 1000
)

// alignment is where, in the bytes of a message, its body starts: at a multiple of this. A client that maps a message's buffers
// instead of copying them then has every column aligned.
const alignment = 64

// size is how many bytes the message and its dictionaries take on the wire, gRPC's framing not counted.
func (m *message) size() int {
	n := m.preamble(len(m.metadata)) + m.bodyLen
	for _, d := range m.dictionaries {
		n += d.size()
	}
	return n
}

// preamble is the number of bytes before the body when the metadata has the given length.
func (m *message) preamble(metadata int) int {
	n := protowire.SizeTag(fieldHeader) + protowire.SizeBytes(len(m.header))
	if metadata > 0 {
		n += protowire.SizeTag(fieldMetadata) + protowire.SizeBytes(metadata)
	}
	if m.bodyLen > 0 {
		n += protowire.SizeTag(fieldBody) + protowire.SizeVarint(uint64(m.bodyLen))
	}
	return n
}

// align appends spaces, which JSON allows, to the metadata until the body starts at a multiple of alignment. (The metadata's own
// length prefix grows on the way, so one residue may be skipped: the next turn of 64 meets it.)
func (m *message) align() {
	k := 0
	for m.preamble(len(m.metadata)+k)%alignment != 0 {
		k++
	}
	m.metadata = append(m.metadata, bytes.Repeat([]byte{' '}, k)...)
}

// tracked is the capacity from which on gRPC tells when it lets go of a buffer.
const tracked = 1<<10 + 1

func (m *message) marshal() mem.BufferSlice {
	b := make([]byte, 0, max(m.preamble(len(m.metadata)), tracked))
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
	slices := append([][]byte{b}, gathered(m.body)...)
	out := make(mem.BufferSlice, 0, len(slices))
	if m.charge == nil {
		for _, s := range slices {
			out = append(out, mem.SliceBuffer(s))
		}
		return out
	}
	m.charge.Hand(len(slices), m.loan.end)
	for _, s := range slices {
		out = append(out, mem.NewBuffer(&s, m.charge))
	}
	return out
}

// gathered copies neighbours that are too small for gRPC to tell of into slices that are not, and leaves the others as they are.
func gathered(body [][]byte) [][]byte {
	var out [][]byte
	open := false // the last slice is made of small ones
	for _, s := range body {
		switch {
		case cap(s) >= tracked:
			out, open = append(out, s), false
		case open && len(out[len(out)-1])+len(s) <= cap(out[len(out)-1]):
			out[len(out)-1] = append(out[len(out)-1], s...)
		case len(s) > 0:
			out, open = append(out, append(make([]byte, 0, tracked), s...)), true
		}
	}
	return out
}

// Write appends a borrowed slice to the body: what an Arrow payload serializes itself into.
func (m *message) Write(p []byte) (int, error) {
	m.body = append(m.body, p)
	m.bodyLen += len(p)
	return len(p), nil
}

// codec is gRPC's protobuf codec, except that it hands a *message to the transport without copying its body.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*message); ok {
		return m.marshal(), nil
	}
	return c.CodecV2.Marshal(v)
}
