package feed_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"loaderd/internal/natstest"
	"loaderd/stream/conn"
	"loaderd/stream/feed"
)

// inside is an embedded server that can cut its connections.
type inside struct {
	*server.Server
	password string // with which clients log in
	made     []net.Conn
}

func (s *inside) InProcessConn() (net.Conn, error) {
	c, err := s.Server.InProcessConn()
	s.made = append(s.made, c)
	return c, err
}

func (s *inside) URL() string        { return s.ClientURL() }
func (s *inside) CheckHealth() error { return nil }

func (s *inside) Health() error { return nil }

// dialInside connects to an embedded server with users and passwords.
func dialInside(t *testing.T) (*conn.Client, *inside) {
	t.Helper()
	s := natstest.StartPlainServer(t, &server.Options{JetStream: true, NoLog: true, MaxPayload: 8 << 20,
		Users: []*server.User{{Username: "who", Password: "secret"}}})
	in := &inside{Server: s, password: "secret"}
	login := func() (string, string) { return "who", in.password }
	c, err := conn.Dial(natstest.TimeoutContext(t, time.Minute),
		conn.Options{Server: in, Login: login, ReconnectWait: 200 * time.Millisecond}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, in
}

// next returns the feed's next message, or false when it has ended.
func next(t *testing.T, f *feed.Feed, rest *[]feed.Delivery) (d feed.Delivery, ok bool) {
	t.Helper()
	if len(*rest) == 0 {
		select {
		case *rest = <-f.Messages:
		case <-time.After(20 * time.Second):
			t.Fatal("no message came")
		}
	}
	if len(*rest) == 0 {
		return d, false
	}
	d, *rest = (*rest)[0], (*rest)[1:]
	return d, true
}

// A feed delivers what was sent, of any size, with and without headers, also when its blocks are reused. This holds
// for a separate connection and for the library.
func TestFeed_DeliversMessagesOfAnySize(t *testing.T) {
	in, _ := dialInside(t)
	url := "nats://" + natstest.StartPlain(t, &server.Options{JetStream: true})
	out, err := conn.Dial(natstest.TimeoutContext(t, time.Minute),
		conn.Options{URL: url, ReconnectWait: 200 * time.Millisecond},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Close)
	for name, c := range map[string]*conn.Client{"inside": in, "outside": out} {
		t.Run(name, func(t *testing.T) {
			f, err := feed.Open(c, "to.*", 1000)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := c.Conn().Flush(); err != nil {
				t.Fatal(err)
			}
			sizes := []int{0, 1, 2, 100, 4095, 4096, 5000, 32 << 10, 65535, 65536, 100_000, 256<<10 - 1, 256 << 10,
				300_000, 1000_000}
			const rounds = 12
			go func() {
				for i := range rounds * len(sizes) {
					m := nats.NewMsg(fmt.Sprintf("to.%d", i/7))
					m.Data = bytes.Repeat([]byte{byte(i)}, sizes[i%len(sizes)])
					if i%2 == 0 {
						m.Reply = "answer.here"
					}
					if i%3 == 0 {
						m.Header = nats.Header{"Some": {"value", "another"}, "id": {strings.Repeat("x", i)}}
					}
					if err := c.Conn().PublishMsg(m); err != nil {
						t.Error(err)
					}
				}
			}()
			var rest []feed.Delivery
			for i := range rounds * len(sizes) {
				d, ok := next(t, f, &rest)
				if !ok {
					t.Fatalf("the feed ends before message %d", i)
				}
				header, raw := d.Header, len(d.RawHeaders)
				if d.RawHeaders != nil {
					if header, err = nats.DecodeHeadersMsg(d.RawHeaders); err != nil {
						t.Fatal(err)
					}
				}
				reply := ""
				if i%2 == 0 {
					reply = "answer.here"
				}
				if d.Subject != fmt.Sprintf("to.%d", i/7) || string(d.Reply) != reply || d.MalformedHeaders {
					t.Fatalf("message %d arrived to %q with the answer to %q, garbled: %v", i, d.Subject, d.Reply, d.MalformedHeaders)
				}
				if want := sizes[i%len(sizes)]; len(d.Data) != want || bytes.Count(d.Data, []byte{byte(i)}) != want {
					t.Fatalf("message %d: %d bytes arrived, want %d of %d", i, len(d.Data), want, byte(i))
				}
				if has := i%3 == 0; has != (len(header) == 2) || has &&
					(len(header["Some"]) != 2 || header.Get("id") != strings.Repeat("x", i)) {
					t.Fatalf("message %d has headers %v", i, header)
				}
				if least := len(d.Subject) + len(d.Reply) + len(d.Data) + raw; d.Size < least || name == "inside" &&
					d.Size != least {
					t.Fatalf("message %d is of %d bytes, want %d", i, d.Size, least)
				}
				if d.Block != nil {
					clear(d.Reply)
					clear(d.RawHeaders)
					clear(d.Data)
				}
				d.Block.Release()
			}
		})
	}
}

// A request reaches its responder, and the response arrives over the feed.
func TestFeed_ReceivesResponses(t *testing.T) {
	c, _ := dialInside(t)
	if _, err := c.Conn().Subscribe("ask", func(m *nats.Msg) {
		_ = m.Respond(append([]byte("heard "), m.Data...))
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	f, err := feed.Open(c, "back.*", 10)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rest []feed.Delivery
	for _, body := range []string{"", "a", "two\r\nlines"} {
		if err := f.Request("ask", "back.1", []byte(body)); err != nil {
			t.Fatal(err)
		}
		if d, _ := next(t, f, &rest); string(d.Data) != "heard "+body {
			t.Errorf("%q was answered %q", body, d.Data)
		}
	}
	if err := f.Request("nobody", "back.2", nil); err != nil {
		t.Fatal(err)
	}
	if d, _ := next(t, f, &rest); !bytes.HasPrefix(d.RawHeaders, []byte("NATS/1.0 503")) {
		t.Errorf("a request that nobody hears is answered %q", d.RawHeaders)
	}
}

// A feed ends with its connection, or when more messages arrive than it has room for.
func TestFeed_EndsWithConnectionOrOverflow(t *testing.T) {
	c, in := dialInside(t)
	for _, tt := range []struct {
		why string
		end func(f *feed.Feed)
	}{
		{"the connection is cut", func(*feed.Feed) { _ = in.made[len(in.made)-1].Close() }},
		{"it is closed", (*feed.Feed).Close},
		{"there is no room", func(f *feed.Feed) {
			for began := time.Now(); f.Request("nobody", "nowhere", nil) == nil && time.Since(began) < 20*time.Second; {
				if err := c.Conn().Publish("much", nil); err != nil {
					t.Error(err)
				}
				if err := c.Conn().Flush(); err != nil {
					t.Error(err)
				}
			}
		}},
	} {
		t.Run(tt.why, func(t *testing.T) {
			f, err := feed.Open(c, "much", 3)
			if err != nil {
				t.Fatal(err)
			}
			tt.end(f)
			var rest []feed.Delivery
			for {
				if _, ok := next(t, f, &rest); !ok {
					break
				}
			}
			if err := f.Request("ask", "much", nil); err == nil {
				t.Error("a request goes out over a feed that has ended")
			}
		})
	}
}

// A client that may not connect gets no feed, but an error with the reason.
func TestFeed_LoginFailureHasReason(t *testing.T) {
	c, in := dialInside(t)
	in.password = "wrong"
	if _, err := feed.Open(c, "to", 1); err == nil || !strings.Contains(err.Error(), "Authorization Violation") {
		t.Errorf("with a wrong password: %v", err)
	}
}
