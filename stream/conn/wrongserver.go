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

// probeLimit bounds each look at what else than a NATS server may listen at an address.
const probeLimit = time.Second

// http2Preface is what a client of HTTP/2 begins with: the preface, and a frame of no settings.
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// notNATS says what is wrong when servers that do not greet a client speak HTTP/2, as the daemon's Flight server does:
// such a server waits for its client to begin. Empty when it is not that.
func notNATS(ctx context.Context, urls string, err error) string {
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
		if answersHTTP2(context.WithoutCancel(ctx), address) { // ctx may end with this very attempt
			return fmt.Sprintf("at %s listens no NATS server but one that speaks HTTP/2, such as the daemon's Flight server; "+
				"its NATS server is at stream.listen of its configuration, by default nats://127.0.0.1:4222", address)
		}
	}
	return ""
}

func answersHTTP2(ctx context.Context, address string) bool {
	dial := net.Dialer{Timeout: probeLimit}
	conn, err := dial.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(probeLimit)) != nil {
		return false
	}
	if _, err := io.WriteString(conn, http2Preface); err != nil {
		return false
	}
	var frame [9]byte // of settings, with which a server begins too
	_, err = io.ReadFull(conn, frame[:])
	return err == nil && frame[3] == 4
}
