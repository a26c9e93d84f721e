package flightclient

import (
	"encoding/binary"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// messageReader reads the messages of one stream. All messages share one buffer, because Arrow copies the content of a
// message before it requests the next one.
type messageReader struct {
	stream  grpc.ClientStream
	message flight.FlightData
}

// Recv returns the next message. It is valid until the next call of Recv.
func (r *messageReader) Recv() (*flight.FlightData, error) {
	if err := r.stream.RecvMsg(&r.message); err != nil {
		return nil, err
	}
	return &r.message, nil
}

// codec is gRPC's protobuf codec, except that it copies the content of a Flight message only once: from the network
// buffers to the existing memory of the message. gRPC's codec joins the buffers first and then copies the content to
// new memory.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*flight.FlightData); ok && unmarshal(data, m) {
		return nil
	}
	return c.CodecV2.Unmarshal(data, v) // returns the error of an invalid message
}

// unmarshal reports whether it could decode a message. It supports only the fields that every batch has.
func unmarshal(data mem.BufferSlice, m *flight.FlightData) bool {
	const fieldHeader, fieldMetadata, fieldBody = 2, 3, 1000
	m.FlightDescriptor, m.DataHeader, m.AppMetadata, m.DataBody = nil, m.DataHeader[:0], m.AppMetadata[:0], m.DataBody[:0]
	r := data.Reader()
	defer r.Close()
	for r.Remaining() > 0 {
		tag, err := binary.ReadUvarint(r)
		if err != nil || tag > math.MaxInt32 {
			return false
		}
		field, wire := protowire.DecodeTag(tag)
		if wire != protowire.BytesType {
			return false
		}
		size, err := binary.ReadUvarint(r)
		if err != nil || size > uint64(r.Remaining()) {
			return false
		}
		var into *[]byte
		switch field {
		case fieldHeader:
			into = &m.DataHeader
		case fieldMetadata:
			into = &m.AppMetadata
		case fieldBody:
			into = &m.DataBody
		default:
			return false
		}
		*into = slices.Grow((*into)[:0], int(size))[:size]
		if _, err := io.ReadFull(r, *into); err != nil {
			return false
		}
	}
	return true
}

// reusingAllocator is an allocator that reuses the memory of released records for later records of the stream. It is
// not safe for concurrent use.
type reusingAllocator struct {
	memory.Allocator
	free [][]byte
}

// maxFreeBuffers is the maximum number of kept buffers. A record uses two per column.
const maxFreeBuffers = 32

func (k *reusingAllocator) Allocate(size int) []byte {
	i := slices.IndexFunc(k.free, func(b []byte) bool { return cap(b) >= size && cap(b)/2 <= size })
	if i < 0 {
		return k.Allocator.Allocate(size)
	}
	b := k.free[i]
	k.free = slices.Delete(k.free, i, i+1)
	return b[:size]
}

func (k *reusingAllocator) Free(b []byte) {
	if len(k.free) == maxFreeBuffers {
		k.free = slices.Delete(k.free, 0, 1)
	}
	k.free = append(k.free, b)
}
