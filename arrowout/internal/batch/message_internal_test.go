package batch

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"google.golang.org/protobuf/proto"
)

func TestMessage_BodyStartsAligned(t *testing.T) {
	for _, header := range []int{1, 100, 127, 128, 300, 16383, 16384} {
		for _, body := range []int{1, 127, 128, 70000, 3 << 20} {
			data := bytes.Repeat([]byte{7}, body)
			for metadata := 1; metadata <= 300; metadata++ {
				m := &Message{header: bytes.Repeat([]byte{1}, header), metadata: []byte(strings.Repeat("m", metadata))}
				_, _ = m.Write(data[:body/2])
				_, _ = m.Write(data[body/2:])
				m.alignBody()
				out := m.marshal()
				if n := len(out[0].ReadOnlyData()); n%alignment != 0 || n != m.preambleSize(len(m.metadata)) {
					t.Fatalf("header %d, metadata %d, body %d: the body starts at %d", header, metadata, body, n)
				}
				if extra := len(m.metadata) - metadata; extra >= 2*alignment {
					t.Fatalf("header %d, metadata %d, body %d: %d spaces", header, metadata, body, extra)
				}
				if out.Len() != m.Size() {
					t.Fatalf("size reports %d, it is %d", m.Size(), out.Len())
				}
			}
		}
	}
}

func TestMessage_EqualsFlightData(t *testing.T) {
	for name, m := range map[string]*Message{
		"schema": {header: []byte("header")},
		"batch": {header: []byte("header"), metadata: []byte("{}   "), body: [][]byte{[]byte("ab"), {}, []byte("c")},
			bodyLen: 3},
	} {
		b, err := NewCodec().Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var got flight.FlightData
		if err := proto.Unmarshal(b.Materialize(), &got); err != nil {
			t.Fatal(name, err)
		}
		want := &flight.FlightData{DataHeader: m.header, AppMetadata: m.metadata, DataBody: bytes.Join(m.body, nil)}
		if len(want.DataBody) == 0 {
			want.DataBody = nil
		}
		if !proto.Equal(&got, want) {
			t.Errorf("%s: got %v, want %v", name, &got, want)
		}
	}
}

// Adjacent small slices are merged, so that gRPC reports the release of every buffer, and the content is unchanged.
func TestMergeSmall_KeepsContent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var body [][]byte
		for range rng.IntN(12) {
			piece := make([]byte, rng.IntN(2*minTrackedCapacity)/(1+rng.IntN(50)))
			for i := range piece {
				piece[i] = byte(rng.IntN(256))
			}
			body = append(body, piece)
		}
		out := mergeSmall(body)
		if !bytes.Equal(bytes.Join(out, nil), bytes.Join(body, nil)) {
			t.Fatal("the body has changed")
		}
		for _, s := range out {
			if cap(s) < minTrackedCapacity {
				t.Fatalf("gRPC does not tell of a buffer of %d bytes", cap(s))
			}
		}
	}
}
