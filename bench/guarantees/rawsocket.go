package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
)

// readRaw reads messages of a size from a socket that always has the next one available, and calls each after every
// one.
func readRaw(ctx context.Context, size, messages int, each func() error) (err error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for a raw reader: %w", err)
	}
	sent := make(chan error, 1)
	go func() { sent <- send(l, size, messages) }()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return errors.Join(fmt.Errorf("connect a raw reader: %w", err), l.Close(), <-sent)
	}
	defer func() { err = errors.Join(err, conn.Close(), l.Close(), <-sent) }()
	message := make([]byte, size)
	for range messages {
		if _, err := io.ReadFull(conn, message); err != nil {
			return fmt.Errorf("read raw message: %w", err)
		}
		if err := each(); err != nil {
			return err
		}
	}
	return nil
}

func send(l net.Listener, size, messages int) error {
	conn, err := l.Accept()
	if err != nil {
		return fmt.Errorf("accept a raw reader: %w", err)
	}
	message := make([]byte, size)
	for range messages {
		if _, err := conn.Write(message); err != nil {
			return errors.Join(fmt.Errorf("send raw message: %w", err), conn.Close())
		}
	}
	return conn.Close()
}
