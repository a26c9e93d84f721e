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

	out    chan<- []Delivery
	nc     *nats.Conn         // to a server elsewhere, with ...
	sub    *nats.Subscription // ... this
	inproc *inprocClient      // to the embedded server; else nil
}

// Delivery is a message of a feed.
type Delivery struct {
	Subject          string
	Reply            []byte
	Header           nats.Header
	RawHeaders       []byte // unparsed headers instead of Header, because parsing takes longer than receiving
	MalformedHeaders bool   // its headers cannot be parsed
	Data             []byte
	Size             int // bytes that count against a request's bound in bytes
	// that holds Reply, Raw and Data, which are invalid once it is left; nil if they are not in a block
	Block *Block
}

var errFeedFull = errors.New("more messages arrived than were requested")

// Open opens a feed of a subject, with room for this many undelivered messages. The room must hold all requested
// messages.
func Open(c *conn.Client, subject string, room int) (*Feed, error) {
	out := make(chan []Delivery, room)
	f := &Feed{Messages: out, out: out, nc: c.Conn()}
	var err error
	if c.Options().Server != nil {
		if f.inproc, err = openInprocClient(c.Options(), subject); err != nil {
			return nil, conn.AsTransient(fmt.Errorf("connect to the embedded NATS server: %w", err))
		}
		go f.readLoop()
		return f, nil
	}
	if f.sub, err = c.Conn().Subscribe(subject, f.deliver); err != nil {
		return nil, err
	}
	return f, f.sub.SetPendingLimits(-1, -1) // the requests are the bound
}

// deliver delivers a message of the library.
func (f *Feed) deliver(m *nats.Msg) {
	f.out <- []Delivery{{Subject: m.Subject, Reply: []byte(m.Reply), Header: m.Header, Data: m.Data, Size: m.Size(),
		// The library drops headers that it cannot parse; only the size shows it.
		MalformedHeaders: m.Header == nil && m.Size() > len(m.Subject)+len(m.Reply)+len(m.Data)}}
}

// readLoop delivers the messages of a separate connection until that ends.
func (f *Feed) readLoop() {
	defer close(f.out)
	defer f.inproc.close()
	for {
		some, err := f.inproc.read()
		if len(some) > 0 {
			select {
			case f.out <- some:
			default:
				err = errFeedFull
			}
		}
		if err != nil {
			return
		}
	}
}

// Request sends a request for messages, which arrive at reply.
func (f *Feed) Request(subject, reply string, body []byte) error {
	if f.inproc == nil {
		return f.nc.PublishRequest(subject, reply, body)
	}
	return f.inproc.write(fmt.Appendf(nil, "PUB %s %s %d\r\n%s\r\n", subject, reply, len(body), body))
}

// Close ends the feed. Undelivered messages are lost.
func (f *Feed) Close() {
	if f.inproc != nil {
		f.inproc.close()
		return
	}
	_ = f.sub.Unsubscribe() // fails on a closed connection
}
