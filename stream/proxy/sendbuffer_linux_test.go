package proxy

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loaderd/internal/connlimit"
)

// The kernel buffers only a few responses for a producer that does not read.
func TestProducer_BoundsTheSendBuffer(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	l := connlimit.New(inner, connlimit.Config{Max: 1, MaxPerHost: 1, IdentifyTimeout: time.Hour, Log: log})
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	raw := accepted.(*connlimit.Conn)
	s := &session{client: raw, server: raw, clientReader: bufio.NewReader(strings.NewReader(""))}
	newProducer(context.Background(), New(nil, Options{}), raw, s)
	control, err := raw.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	read := func(fd uintptr) { size, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF) }
	if err := control.Control(read); err != nil {
		t.Fatal(err)
	}
	if err != nil || size > 2*sendBuffer { // Linux doubles the requested size
		t.Errorf("the send buffer has %d bytes, %v, want %d at most", size, err, 2*sendBuffer)
	}
}
