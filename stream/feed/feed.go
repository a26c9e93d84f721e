// Package feed delivers the messages of a subject. Messages of an embedded server stay in the memory into which they
// were read.
package feed

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"loaderd/stream/conn"
)

// Feed is a subscription for many messages that are requested over it. For an embedded server it is a separate
// connection, whose messages stay in the blocks into which they were read. The client library copies each message two
// or three times into new memory. This was up to two fifths of what a daemon's garbage collector had to scan.
type Feed struct {
	// Messages delivers messages in order, a few at a time. It is closed when the embedded server has closed the
	// connection.
	Messages <-chan []Delivery

	out chan<- []Delivery
	nc  *nats.Conn         // to a server elsewhere, with ...
	sub *nats.Subscription // ... this
	own *ownLine           // to the embedded server; else nil
}

// Delivery is a message of a feed.
type Delivery struct {
	Subject string
	Reply   []byte
	Header  nats.Header
	Raw     []byte // unparsed headers instead of Header, because parsing takes longer than receiving
	Garbled bool   // its headers cannot be parsed
	Data    []byte
	Size    int    // bytes that count against a request's bound in bytes
	Block   *Block // that holds Reply, Raw and Data, which are invalid once it is left; nil if they are not in a block
}

var errRoom = errors.New("more messages came than there is room for")

// Open opens a feed of a subject, with room for this many undelivered messages. The room must hold all requested
// messages.
func Open(c *conn.Client, subject string, room int) (*Feed, error) {
	out := make(chan []Delivery, room)
	f := &Feed{Messages: out, out: out, nc: c.Conn()}
	var err error
	if c.Options().Server != nil {
		if f.own, err = openLine(c.Options(), subject); err != nil {
			return nil, conn.Passing(fmt.Errorf("connect to the embedded NATS server: %w", err))
		}
		go f.read()
		return f, nil
	}
	if f.sub, err = c.Conn().Subscribe(subject, f.take); err != nil {
		return nil, err
	}
	return f, f.sub.SetPendingLimits(-1, -1) // the requests are the bound
}

// take delivers a message of the library.
func (f *Feed) take(m *nats.Msg) {
	f.out <- []Delivery{{Subject: m.Subject, Reply: []byte(m.Reply), Header: m.Header, Data: m.Data, Size: m.Size(),
		// The library drops headers that it cannot parse; only the size shows it.
		Garbled: m.Header == nil && m.Size() > len(m.Subject)+len(m.Reply)+len(m.Data)}}
}

// read delivers the messages of a separate connection until that ends.
func (f *Feed) read() {
	defer close(f.out)
	defer f.own.close()
	for {
		some, err := f.own.read()
		if len(some) > 0 {
			select {
			case f.out <- some:
			default:
				err = errRoom
			}
		}
		if err != nil {
			return
		}
	}
}

// Request sends a request for messages, which arrive at reply.
func (f *Feed) Request(subject, reply string, body []byte) error {
	if f.own == nil {
		return f.nc.PublishRequest(subject, reply, body)
	}
	return f.own.write(fmt.Appendf(nil, "PUB %s %s %d\r\n%s\r\n", subject, reply, len(body), body))
}

// Close ends the feed. Undelivered messages are lost.
func (f *Feed) Close() {
	if f.own != nil {
		f.own.close()
		return
	}
	_ = f.sub.Unsubscribe() // fails on a closed connection
}
