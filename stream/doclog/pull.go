package doclog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
	"loaderd/stream/deadletter"
)

// message is one message of the document stream.
type message struct {
	sequence uint64
	subject  string
	header   nats.Header
	garbled  bool // it has headers that cannot be read
	data     []byte
	size     int // bytes on the wire
	time     time.Time
}

// original is the message as its dead letter needs it.
func (m *message) original() deadletter.Original {
	return deadletter.Original{Sequence: m.sequence, Subject: m.subject, Header: m.header, Garbled: m.garbled, Data: m.data}
}

// pull reads the document stream from one sequence on, through a consumer of its own that keeps no state worth keeping: nothing is
// acknowledged, and after any trouble a new one starts at the next sequence. One request is outstanding at a time, and what it may
// bring is bounded in bytes, which is what the library's own iterators lack: theirs ask for ever for a message larger than the bound.
type pull struct {
	nc      *nats.Conn
	name    string // of the consumer
	subject string // takes requests for messages
	drop    string // takes a request to drop the consumer
	inbox   string // inbox.<request> takes what they bring
	sub     *nats.Subscription
	msgs    chan *nats.Msg
	seen    uint64 // messages that the consumer has sent

	request int       // number of the last request
	since   time.Time // when it was made, or the consumer when there is none
	asked   bool      // it is outstanding
	batch   int       // messages it may still bring
	bytes   int64     // bytes it may still bring, 0 without a bound
	got     int       // messages it brought

	// Of the reader, while it follows this consumer.
	heard time.Time // when something came last, or could not have come because nothing was asked for
	next  uint64    // the reader's next sequence when it looked last
}

const (
	// pullBatch bounds the messages of one request; msgs has room for all of them, so that nothing is ever dropped.
	pullBatch = 4096
	// pullExpires ends a request that waits for new documents; heartbeats tell a quiet stream from a dead one.
	pullExpires   = 30 * time.Second
	pullHeartbeat = 2 * time.Second
	// pullInactive is when the server drops a consumer that asks for nothing, unless the document log says otherwise.
	pullInactive = 2 * time.Minute
)

var (
	errPullLost = conn.Passing(errors.New("messages were lost on the way"))
	errPullGone = conn.Passing(errors.New("the consumer is gone"))
	// errPullIdle says that the consumer asked for nothing for so long that the server is about to drop it.
	errPullIdle = errors.New("the consumer is idle")
)

// openPull makes a consumer that starts at sequence from. The server drops it when it asks for nothing for as long as inactive.
func openPull(ctx context.Context, client *conn.Client, stream jetstream.Stream, from uint64, inactive time.Duration) (*pull, error) {
	nc := client.Conn()
	p := &pull{nc: nc, since: time.Now(), inbox: nc.NewInbox(), msgs: make(chan *nats.Msg, pullBatch+1024)}
	var info *jetstream.ConsumerInfo
	err := client.Attempt(ctx, conn.AttemptLimit, func(ctx context.Context) error {
		consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, AckPolicy: jetstream.AckNonePolicy,
			MemoryStorage: true, Replicas: 1, InactiveThreshold: inactive, Description: "loaderd document reader",
		})
		if err == nil {
			info = consumer.CachedInfo()
		}
		return err
	})
	if err != nil {
		var refused *jetstream.APIError
		if errors.As(err, &refused) && !errors.Is(err, jetstream.ErrStreamNotFound) {
			err = conn.Passing(err) // there may be too many consumers for now
		}
		return nil, fmt.Errorf("create consumer: %w", err)
	}
	p.name = info.Name
	p.subject = client.API("CONSUMER.MSG.NEXT", info.Stream, info.Name)
	p.drop = client.API("CONSUMER.DELETE", info.Stream, info.Name)
	if p.sub, err = nc.ChanSubscribe(p.inbox+".*", p.msgs); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return p, nil
}

// ask requests messages of at most maxBytes together; 0 requests one message of any size.
func (p *pull) ask(maxBytes int64) error {
	p.request++
	p.since = time.Now()
	p.asked, p.got, p.bytes, p.batch = true, 0, maxBytes, pullBatch
	if maxBytes == 0 {
		p.batch = 1
	}
	body, err := json.Marshal(struct {
		Batch     int           `json:"batch"`
		MaxBytes  int64         `json:"max_bytes,omitempty"`
		Expires   time.Duration `json:"expires"`
		Heartbeat time.Duration `json:"idle_heartbeat"`
	}{p.batch, maxBytes, pullExpires, pullHeartbeat})
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	if err := p.nc.PublishRequest(p.subject, p.inbox+"."+strconv.Itoa(p.request), body); err != nil {
		return fmt.Errorf("request documents: %w", err)
	}
	return nil
}

// receive accounts what came. m is nil when it was not a document; tooBig says that the next document does not fit the request's bytes.
// pending is the number of messages behind m.
func (p *pull) receive(in *nats.Msg) (m *message, pending uint64, tooBig bool, err error) {
	if in.Reply == "" {
		tooBig, err = p.status(in)
		return nil, 0, tooBig, err
	}
	meta, err := in.Metadata()
	if err != nil {
		return nil, 0, false, conn.Passing(fmt.Errorf("read metadata of a message: %w", err))
	}
	p.seen++
	if meta.Sequence.Consumer != p.seen {
		return nil, 0, false, fmt.Errorf("%w: number %d came instead of %d", errPullLost, meta.Sequence.Consumer, p.seen)
	}
	size := in.Size()
	p.got++
	p.batch--
	if p.bytes > 0 {
		p.bytes -= int64(size)
		p.asked = p.batch > 0 && p.bytes > 0
	} else {
		p.asked = false
	}
	return &message{
		sequence: meta.Sequence.Stream, subject: in.Subject, header: in.Header, data: in.Data, size: size, time: meta.Timestamp,
		// Headers that the library cannot read it leaves out, which only the size tells.
		garbled: in.Header == nil && size > len(in.Subject)+len(in.Reply)+len(in.Data),
	}, meta.NumPending, false, nil
}

// status accounts a message of the server about a request.
func (p *pull) status(in *nats.Msg) (tooBig bool, err error) {
	code, text := in.Header.Get("Status"), in.Header.Get("Description")
	switch {
	case code == "100": // idle heartbeat
		return false, nil
	case code == "503":
		return false, fmt.Errorf("%w: %w", errPullGone, nats.ErrNoResponders)
	case code == "409" && strings.HasPrefix(text, "Consumer"), code == "409" && strings.HasPrefix(text, "Server"):
		return false, fmt.Errorf("%w: %s", errPullGone, text)
	case in.Subject != p.inbox+"."+strconv.Itoa(p.request):
		return false, nil // the end of an earlier request
	}
	p.asked = false
	switch {
	case code == "408" || code == "404":
		return false, nil
	case code == "409" && strings.Contains(text, "MaxBytes"):
		return p.got == 0, nil
	case code == "409" && strings.HasPrefix(text, "Batch Completed"):
		return false, nil
	default:
		return false, fmt.Errorf("%w: %s %s", errPullGone, code, text)
	}
}

// close drops the consumer; the server does so itself when it cannot be told.
func (p *pull) close() {
	_ = p.sub.Unsubscribe()
	if !p.nc.IsConnected() {
		return
	}
	// A request that nobody waits for: the answer changes nothing.
	_ = p.nc.Publish(p.drop, nil)
}
