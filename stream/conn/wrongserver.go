package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// probeTimeout bounds each check for a server other than NATS at an address.
const probeTimeout = time.Second

// http2Preface is what an HTTP/2 client sends first: the preface, and an empty settings frame.
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// explainHTTP2 explains the error if servers that do not greet a client speak HTTP/2, as the daemon's Flight server
// does. Such a server waits for the client to send first. The result is empty for every other server.
func explainHTTP2(ctx context.Context, urls string, err error) string {
	var late net.Error
	if !errors.Is(err, nats.ErrTimeout) && !(errors.As(err, &late) && late.Timeout()) {
		return ""
	}
	for raw := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(strings.TrimSpace(raw))
		if err != nil {
			continue
		}
		address := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222"))
		if isHTTP2Server(context.WithoutCancel(ctx), address) { // ctx may end with this attempt
			return fmt.Sprintf("at %s listens no NATS server but one that speaks HTTP/2, such as the daemon's Flight server; "+
				"its NATS server is at stream.listen of its configuration, by default nats://127.0.0.1:4222", address)
		}
	}
	return ""
}

func isHTTP2Server(ctx context.Context, address string) bool {
	dial := net.Dialer{Timeout: probeTimeout}
	conn, err := dial.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(probeTimeout)) != nil {
		return false
	}
	if _, err := io.WriteString(conn, http2Preface); err != nil {
		return false
	}
	var frame [9]byte // of settings, which a server sends first too
	_, err = io.ReadFull(conn, frame[:])
	return err == nil && frame[3] == 4
}
