package main

import (
	"bytes"
	"net"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// calls are the gRPC calls of a connection whose responses are not decoded.
type calls struct {
	framer  *http2.Framer
	headers bytes.Buffer
	encoder *hpack.Encoder
	next    uint32        // id of a stream
	reads   chan struct{} // receives a value for each call that has ended
	failed  chan error
}

func newCalls(c net.Conn) (*calls, error) {
	x := &calls{framer: http2.NewFramer(c, c), next: 1, reads: make(chan struct{}, 1<<10), failed: make(chan error, 1)}
	x.encoder = hpack.NewEncoder(&x.headers)
	if err := x.framer.WriteSettings(); err != nil {
		return nil, err
	}
	go x.read()
	return x, nil
}

// read reads what the server sends until the connection ends.
func (x *calls) read() {
	for {
		frame, err := x.framer.ReadFrame()
		if err != nil {
			x.failed <- err
			return
		}
		if h, ok := frame.(*http2.HeadersFrame); ok && h.StreamEnded() {
			select {
			case x.reads <- struct{}{}:
			default:
			}
		}
	}
}

// open writes the headers of a call. A call with a token stays open for its message.
func (x *calls) open(path, token string) (id uint32, err error) {
	x.headers.Reset()
	fields := [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "flood"},
		{"content-type", "application/grpc"}, {"te", "trailers"}}
	if token != "" {
		fields = append(fields, [2]string{"authorization", "Bearer " + token})
	}
	for _, f := range fields {
		if err := x.encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return 0, err
		}
	}
	id = x.next
	x.next += 2
	return id, x.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: x.headers.Bytes(),
		EndHeaders: true, EndStream: token == ""})
}

func (x *calls) reset(id uint32) error { return x.framer.WriteRSTStream(id, http2.ErrCodeCancel) }

// answered waits until a call has ended.
func (x *calls) answered() error {
	select {
	case <-x.reads:
		return nil
	case err := <-x.failed:
		return err
	}
}
