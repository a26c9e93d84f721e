package command

import (
	"context"
	"io"
	"net"
	"time"
)

// probeLimit is the time limit of a probe of the address at which a Flight server was expected.
const probeLimit = time.Second

// greetsAsNATS reports whether a NATS server listens at an address. A NATS server sends a greeting to every client.
func greetsAsNATS(ctx context.Context, address string) bool {
	dial := net.Dialer{Timeout: probeLimit}
	conn, err := dial.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	if conn.SetReadDeadline(time.Now().Add(probeLimit)) != nil {
		return false
	}
	greeting := make([]byte, len("INFO "))
	_, err = io.ReadFull(conn, greeting)
	return err == nil && string(greeting) == "INFO "
}
