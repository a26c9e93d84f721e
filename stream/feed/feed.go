// Package feed delivers the messages of a subject. From a server inside the process they stay in the memory into which
// they were read.
package feed

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"loaderd/stream/conn"
)

// Feed is a subscription for many messages that are requested over it. For a server inside this process it is a
// separate connection, whose messages stay in the blocks into which they were read. The client library copies each
// message two or three times into new memory; this was up to two fifths of what a daemon's garbage collector had to
// scan.
type Feed struct {
	// Messages delivers messages in order, a few at a time. It is closed when the server inside this process has closed
	// the connection.
	Messages <-chan []Delivery

	out chan<- []Delivery
	nc  *nats.Conn         // to a server elsewhere, with ...
	sub *nats.Subscription // ... this
	own *ownLine           // to the server inside this process; else nil
}

// Delivery is a message of a feed.
type Delivery struct {
	Subject string
	Reply   []byte
	Header  nats.Header
	Raw     []byte // in place of Header: headers that are not read yet, which takes longer than taking the message
	Garbled bool   // it has headers that cannot be read
	Data    []byte
	Size    int    // bytes that count for a request that is bounded in bytes
	Block   *Block // in which Reply, Raw and Data lie: none may be used once it is left. Nil: in memory of their own
}

var errRoom = errors.New("more messages came than there is room for")

// Open opens a feed of a subject, with room for so many messages that are not taken yet. It must hold all that is
// requested.
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
	return f, f.sub.SetPendingLimits(-1, -1) // what was requested is bounded already
}

// take takes a message of the library.
func (f *Feed) take(m *nats.Msg) {
	f.out <- []Delivery{{Subject: m.Subject, Reply: []byte(m.Reply), Header: m.Header, Data: m.Data, Size: m.Size(),
		// The library leaves out headers that it cannot read; only the size shows it.
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

// Request asks for messages, which are sent to reply.
func (f *Feed) Request(subject, reply string, body []byte) error {
	if f.own == nil {
		return f.nc.PublishRequest(subject, reply, body)
	}
	return f.own.write(fmt.Appendf(nil, "PUB %s %s %d\r\n%s\r\n", subject, reply, len(body), body))
}

// Close ends the feed. Messages that are not taken are lost.
func (f *Feed) Close() {
	if f.own != nil {
		f.own.close()
		return
	}
	_ = f.sub.Unsubscribe() // fails on a closed connection
}
