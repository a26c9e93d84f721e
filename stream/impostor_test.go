package stream_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/server"
)

// impostor listens at the address of a stopped server. It returns the data that the first client sends until it waits
// for a response or disconnects.
func impostor(t *testing.T, address, nonce string) <-chan string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	sent := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn,
			`INFO {"server_id":"N","version":"2.15.2","proto":1,"headers":true,"auth_required":true,"max_payload":1048576%s}`+
				"\r\n", nonce)
		var all strings.Builder
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			all.WriteString(lines.Text() + "\n")
			if strings.HasPrefix(lines.Text(), "PING") {
				break
			}
		}
		sent <- all.String()
	}()
	return sent
}

// A process that listens at the address of the daemon's stopped server receives no token of the clients of this
// machine.
func TestClients_SendNoTokenToImpostor(t *testing.T) {
	s := natstest.StartEmbedded(t)
	c := s.Config()
	c.URL = s.Store().ClientURL()
	address := strings.TrimPrefix(c.URL, "nats://")
	s.Stop()
	tokens := map[string]string{}
	for _, file := range []string{server.OperatorFile, server.ProducerFile} {
		text, err := os.ReadFile(filepath.Join(c.Dir, file))
		if err != nil {
			t.Fatal(err)
		}
		tokens[file] = strings.TrimSpace(string(text))
	}
	named, inURL := c, c
	named.TokenFile = filepath.Join(c.Dir, server.ProducerFile)
	inURL.URL = natstest.URLWithToken(c.URL, c.Dir, server.ProducerFile)
	type opener func(context.Context, stream.Config, *slog.Logger) (*stream.Store, error)
	for _, x := range []struct {
		name   string
		config stream.Config
		open   opener
	}{
		{"command of the operator", c, stream.Open}, {"producer", c, stream.OpenProducer},
		{"producer with a token file", named, stream.OpenProducer}, {"producer with a token in its URL", inURL,
			stream.OpenProducer},
	} {
		for _, nonce := range []string{`,"nonce":"uhTm8MPwoNhhV9g"`, ""} {
			t.Run(x.name+nonce, func(t *testing.T) {
				sent := impostor(t, address, nonce)
				ctx, cancel := context.WithCancel(natstest.Context(t))
				done := make(chan error, 1)
				go func() {
					store, err := x.open(ctx, x.config, quiet())
					if err == nil {
						err = store.Close()
					}
					done <- err
				}()
				text := <-sent
				cancel()
				if err := <-done; err == nil {
					t.Error("it is connected")
				}
				if nonce != "" && !strings.Contains(text, `"sig":"`) {
					t.Errorf("it signs nothing: %s", text)
				}
				for file, token := range tokens {
					if strings.Contains(text, token) {
						t.Errorf("it sends the token of %s", file)
					}
				}
			})
		}
	}
}
