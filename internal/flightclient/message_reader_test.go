package flightclient

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"
)

// torn splits a message into buffers as a network does.
func torn(r *rand.Rand, wire []byte) (out mem.BufferSlice) {
	for len(wire) > 0 {
		n := min(1+r.IntN(40), len(wire))
		out = append(out, mem.SliceBuffer(bytes.Clone(wire[:n])))
		wire = wire[n:]
	}
	return out
}

func TestMessageReader_MatchesProtobuf(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := func(n int) []byte {
		b := make([]byte, r.IntN(n))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	var got flight.FlightData // its memory is reused for every message
	for i := range 500 {
		want := flight.FlightData{DataHeader: some(100), AppMetadata: some(300), DataBody: some(900)}
		if i%5 == 0 {
			want.FlightDescriptor = &flight.FlightDescriptor{Cmd: some(20)}
		}
		wire, err := protobuf.Marshal(&want)
		if err != nil {
			t.Fatal(err)
		}
		if err := newCodec().Unmarshal(torn(r, wire), &got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.DataHeader, want.DataHeader) || !bytes.Equal(got.AppMetadata, want.AppMetadata) ||
			!bytes.Equal(got.DataBody, want.DataBody) ||
			!protobuf.Equal(got.FlightDescriptor, want.FlightDescriptor) {
			t.Fatalf("message %d: got %v, want %v", i, &got, &want)
		}
		if len(wire) > 0 {
			if err := newCodec().Unmarshal(torn(r, wire[:len(wire)-1]), &got); err == nil {
				t.Fatalf("message %d without its last byte was taken", i)
			}
		}
	}
}

func TestReusingAllocator_ReusesBuffers(t *testing.T) {
	k := reusingAllocator{Allocator: memory.NewGoAllocator()}
	large, small := k.Allocate(4096), k.Allocate(64)
	k.Free(small)
	k.Free(large)
	if b := k.Allocate(2048); &b[0] != &large[0] || len(b) != 2048 {
		t.Errorf("memory of half the size is not that which is free, or of %d bytes", len(b))
	}
	if b := k.Allocate(65); &b[0] == &small[0] {
		t.Error("memory is too small")
	}
	for range 2 * maxFreeBuffers {
		k.Free(make([]byte, 64))
	}
	if len(k.free) > maxFreeBuffers {
		t.Errorf("%d pieces are kept, at most %d should be", len(k.free), maxFreeBuffers)
	}
}
