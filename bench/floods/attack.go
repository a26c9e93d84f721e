package main

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// flood is a way to attack a daemon.
type flood struct {
	name, about string
	tls         bool // the daemon has TLS
	connections int  // concurrent connections of the attack
	// attack uses one connection. The next attack follows immediately, or after retryAfter if it failed.
	attack func(c net.Conn, t target) error
	to     func(t target) string // host:port; nil: HTTP
}

func overHTTP(t target) string   { return host(t.HTTP) }
func overNATS(t target) string   { return t.NATS }
func overFlight(t target) string { return host(t.Flight) }

// floods are all floods, in the order of the page.
var floods = []flood{
	{name: "none", about: "no attack, which shows the noise of the measurement"},
	{name: "http-idle", about: "connections that send nothing", connections: 2000, attack: idle},
	{name: "http-slow-headers", about: "requests whose headers do not end, a byte twice per second", connections: 2000,
		attack: slowHeaders},
	{name: "http-slow-bodies", about: "actions of a known identity, a byte of the body twice per second",
		connections: 2000, attack: slowBody},
	{name: "http-unread", about: "requests for the metrics, with a token, whose answers are not read", connections: 500,
		attack: unread},
	{name: "http-requests", about: "requests without a token, one after the other", connections: 64, attack: requests},
	{name: "tls-handshakes", about: "TLS handshakes that the client ends, with HTTP and Flight in turns", tls: true,
		connections: 64, attack: handshake},
	{name: "flight-resets", about: "calls of a known identity that are reset at once", connections: 16, attack: resets,
		to: overFlight},
	{name: "flight-refused", about: "calls without a token, one after the other", connections: 64, attack: refused,
		to: overFlight},
	{name: "nats-connections", about: "connections with a wrong token", connections: 64, attack: wrongToken, to: overNATS},
	{name: "nats-unread", about: "with the token of producers: requests for documents whose answers are not read",
		connections: 64, attack: unreadDocuments, to: overNATS},
	{name: "nats-publish", about: "with the token of producers: documents of 1 KB, as many as the daemon takes",
		connections: 4, attack: publishing, to: overNATS},
}

// attackAs attacks the target described in the input, from one processor, until the process is killed.
func attackAs(name, processor string, in io.Reader) error {
	n, err := strconv.Atoi(processor)
	if err != nil {
		return err
	}
	if err := pin([]int{n}); err != nil {
		return err
	}
	var t target
	if err := json.NewDecoder(in).Decode(&t); err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	for _, f := range floods {
		if f.name != name {
			continue
		}
		if f.to == nil {
			f.to = overHTTP
		}
		var all sync.WaitGroup
		for n := range f.connections {
			all.Go(func() {
				for {
					if f.once(t, n) != nil {
						time.Sleep(retryAfter)
					}
				}
			})
		}
		all.Wait()
		return nil
	}
	return fmt.Errorf("no flood %q", name)
}

// retryAfter is an attacker's delay after the daemon has refused or closed a connection.
const retryAfter = 100 * time.Millisecond

// hosts is the number of addresses that an attacker connects from in turn, because limits are per host.
const hosts = 8

// once attacks over one connection.
func (f flood) once(t target, n int) error {
	dialer := net.Dialer{Timeout: 10 * time.Second}
	if runtime.GOOS == "linux" { // other systems have only 127.0.0.1
		dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+n%hosts))}
	}
	c, err := dialer.Dial("tcp", f.to(t))
	if err != nil {
		return err
	}
	defer c.Close()
	return f.attack(c, t)
}

func idle(c net.Conn, _ target) error {
	_, err := io.Copy(io.Discard, c)
	return cmp.Or(err, io.EOF)
}

// drip writes a byte twice per second.
func drip(c net.Conn) error {
	for {
		if _, err := io.WriteString(c, "x"); err != nil {
			return err
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func slowHeaders(c net.Conn, _ target) error {
	if _, err := io.WriteString(c, "GET /api/status HTTP/1.1\r\nHost: localhost\r\nA: "); err != nil {
		return err
	}
	return drip(c)
}

func slowBody(c net.Conn, t target) error {
	if _, err := fmt.Fprintf(c, "POST /api/action/flush HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+
		"%s\r\nContent-Length: 60000\r\n\r\n", t.Bad); err != nil {
		return err
	}
	return drip(c)
}

func unread(c net.Conn, t target) error {
	for {
		if _, err := fmt.Fprintf(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
			t.Bad); err != nil {
			return err
		}
	}
}

func requests(c net.Conn, _ target) error {
	answers := bufio.NewReader(c)
	for {
		if _, err := io.WriteString(c, "GET /api/status HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return err
		}
		r, err := http.ReadResponse(answers, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return err
		}
	}
}

// handshakes counts handshakes, so that HTTP and Flight are attacked alternately.
var handshakes atomic.Int64

// handshake trusts no authority. It ends the handshake after the server's certificate, for which the server has
// computed a signature.
func handshake(c net.Conn, t target) error {
	if handshakes.Add(1)%2 == 0 {
		from, _ := c.LocalAddr().(*net.TCPAddr)
		dialer := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: from.IP}}
		other, err := dialer.Dial("tcp", overFlight(t))
		if err != nil {
			return err
		}
		defer other.Close()
		c = other
	}
	if err := tls.Client(c, &tls.Config{ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}).Handshake(); err == nil {
		return fmt.Errorf("the certificate of %s is trusted", c.RemoteAddr())
	}
	return nil
}

// frames opens an HTTP/2 connection and returns its calls.
func frames(c net.Conn) (*calls, error) {
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return nil, err
	}
	return newCalls(c)
}

func resets(c net.Conn, t target) error {
	calls, err := frames(c)
	for err == nil {
		var id uint32
		if id, err = calls.open("/arrow.flight.protocol.FlightService/DoGet", t.Bad); err == nil {
			err = calls.reset(id)
		}
	}
	return err
}

func refused(c net.Conn, _ target) error {
	calls, err := frames(c)
	for err == nil {
		if _, err = calls.open("/arrow.flight.protocol.FlightService/GetSchema", ""); err == nil {
			err = calls.answered()
		}
	}
	return err
}

// connect authenticates a NATS client.
func connect(c net.Conn, token string) (*bufio.Reader, error) {
	in := bufio.NewReader(c)
	if _, err := in.ReadString('\n'); err != nil { // INFO
		return nil, err
	}
	_,
		err := fmt.Fprintf(c,
		"CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true,\"user\":\"producer\",\"pass\":%q}\r\nPING\r\n",
		token)
	return in, err
}

func wrongToken(c net.Conn, _ target) error {
	in, err := connect(c, "producer_"+strings.Repeat("0", 43))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

func unreadDocuments(c net.Conn, t target) error {
	if _, err := connect(c, t.Producer); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(c.LocalAddr().String())
	inbox := "_INBOX.floods" + port
	if _, err := fmt.Fprintf(c, "SUB %s 1\r\n", inbox); err != nil {
		return err
	}
	for n := 1; ; n++ {
		body := fmt.Sprintf(`{"seq":%d}`, 1+n%5000)
		if _, err := fmt.Fprintf(c, "PUB $JS.API.DIRECT.GET.DOCS %s %d\r\n%s\r\n", inbox, len(body), body); err != nil {
			return err
		}
	}
}

func publishing(c net.Conn, t target) error {
	in, err := connect(c, t.Producer)
	if err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, in) }() // PINGs get no PONG, which the server tolerates for minutes
	out := bufio.NewWriterSize(c, 64<<10)
	body := strings.Repeat("\x01\x00\x00\x00", 256)
	for n := 0; ; n++ {
		id := strconv.FormatInt(time.Now().UnixNano(), 36) + strconv.Itoa(n)
		headers := "NATS/1.0\r\nNats-Msg-Id: " + id +
			"\r\nContent-Type: application/vnd.loaderd.tokens\r\nLoaderd-Tokenizer: " + fingerprint + "\r\n\r\n"
		if _, err := fmt.Fprintf(out, "HPUB %s %d %d\r\n%s%s\r\n", subject, len(headers), len(headers)+len(body), headers,
			body); err != nil {
			return err
		}
	}
}
