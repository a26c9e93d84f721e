package arrowout_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	protobuf "google.golang.org/protobuf/proto"

	"loaderd/arrowout"
)

// flood is a connection with many DoGet calls of which nothing is read. The client answers pings, and its
// flow-control windows have no room.
type flood struct {
	conn  net.Conn
	ended chan struct{} // closed when the server has ended it
}

// callsOfOne is how many calls a flood makes over one connection.
const callsOfOne = 250

// openFloods is openFlood over as many connections as the number of calls requires.
func openFloods(t testing.TB, s *arrowout.Server, calls int, window uint32, token, ticket string) (all []*flood) {
	t.Helper()
	for from := 0; from < calls; from += callsOfOne {
		all = append(all, openFlood(t, s, from, min(callsOfOne, calls-from), window, token, ticket))
	}
	return all
}

// openFlood makes that many DoGet calls, numbered from first on. # in the ticket is replaced by the number of the
// call. window is the flow-control window of each stream. The client needs almost no memory.
func openFlood(t testing.TB, s *arrowout.Server, first, calls int, window uint32, token, ticket string) *flood {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	f := &flood{conn, make(chan struct{})}
	t.Cleanup(f.close)
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&out, conn)
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	if window > 64<<10 {
		must(framer.WriteWindowUpdate(0, 1<<30))
	}
	var headers bytes.Buffer
	compressed := hpack.NewEncoder(&headers)
	for i := range calls {
		headers.Reset()
		fields := []string{":method", "POST", ":scheme", "http", ":path", "/arrow.flight.protocol.FlightService/DoGet",
			":authority", "flood",
			"content-type", "application/grpc", "te", "trailers"}
		if token != "" {
			fields = append(fields, "authorization", "Bearer "+token)
		}
		for ; len(fields) > 0; fields = fields[2:] {
			must(compressed.WriteField(hpack.HeaderField{Name: fields[0], Value: fields[1]}))
		}
		id := uint32(2*i + 1)
		must(framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: headers.Bytes(), EndHeaders: true}))
		must(framer.WriteData(id, true, message(t, strings.ReplaceAll(ticket, "#", fmt.Sprint(first+i)))))
	}
	go f.answer(framer, &out)
	return f
}

// message returns a ticket in gRPC framing.
func message(t testing.TB, ticket string) []byte {
	b, err := protobuf.Marshal(&flight.Ticket{Ticket: []byte(ticket)})
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
}

// answer sends the buffered frames and answers settings and pings until the connection ends.
func (f *flood) answer(framer *http2.Framer, out *bytes.Buffer) {
	defer close(f.ended)
	for {
		if _, err := out.WriteTo(f.conn); err != nil {
			return
		}
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch x := frame.(type) {
		case *http2.PingFrame:
			if !x.IsAck() {
				err = framer.WritePing(true, x.Data)
			}
		case *http2.SettingsFrame:
			if !x.IsAck() {
				err = framer.WriteSettingsAck()
			}
		}
		if err != nil && err != io.EOF {
			return
		}
	}
}

func (f *flood) close() {
	f.conn.Close()
	<-f.ended
}
