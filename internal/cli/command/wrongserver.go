package command

import (
	"context"
	"io"
	"net"
	"time"
)

// probeLimit bounds the look at what listens where a Flight server was to be.
const probeLimit = time.Second

// greetsAsNATS says whether a NATS server listens at an address: it greets whoever connects.
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
