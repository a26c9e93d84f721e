package reader

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

// received are the messages of one stream. All have one memory: Arrow copies what it makes of a message before it asks
// for the next one.
type received struct {
	stream  grpc.ClientStream
	message flight.FlightData
}

// Recv returns the next message, which is good until Recv is called again.
func (r *received) Recv() (*flight.FlightData, error) {
	if err := r.stream.RecvMsg(&r.message); err != nil {
		return nil, err
	}
	return &r.message, nil
}

// codec is gRPC's protobuf codec, except that what a Flight message brings is copied once, from the network's buffers
// into the memory that the message has already. gRPC's own joins the buffers first and then copies what is in them into
// new memory.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*flight.FlightData); ok && unmarshal(data, m) {
		return nil
	}
	return c.CodecV2.Unmarshal(data, v) // which says what is wrong with it, if anything is
}

// unmarshal reports whether it could read a message: one that has no fields but those that come with every batch.
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

// kept is memory of records that are done with, for the next ones of the same stream. One goroutine uses it.
type kept struct {
	memory.Allocator
	free [][]byte
}

// mostKept bounds the pieces of memory that are kept; a record takes two for each of its columns.
const mostKept = 32

func (k *kept) Allocate(size int) []byte {
	i := slices.IndexFunc(k.free, func(b []byte) bool { return cap(b) >= size && cap(b)/2 <= size })
	if i < 0 {
		return k.Allocator.Allocate(size)
	}
	b := k.free[i]
	k.free = slices.Delete(k.free, i, i+1)
	return b[:size]
}

func (k *kept) Free(b []byte) {
	if len(k.free) == mostKept {
		k.free = slices.Delete(k.free, 0, 1)
	}
	k.free = append(k.free, b)
}
