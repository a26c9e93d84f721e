package docstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"loaderd/stream/conn"
	"loaderd/stream/deadletter"
	"loaderd/stream/feed"
)

// message is one message of the document stream.
type message struct {
	sequence uint64
	subject  string
	header   nats.Header
	garbled  bool   // its headers cannot be parsed
	raw      []byte // unparsed headers, instead of header until read is called
	data     []byte
	block    *feed.Block // that holds raw and data; nil if they are not in a block
	size     int         // bytes on the wire
	time     time.Time
}

// delivered returns a delivery as a message, without its sequence and time.
func delivered(d *feed.Delivery) message {
	return message{subject: d.Subject, header: d.Header, garbled: d.Garbled, raw: d.Raw, data: d.Data, block: d.Block,
		size: d.Size}
}

// read parses raw headers. The result is valid until h reads other headers.
func (m *message) read(h *headers) {
	if m.raw == nil {
		return
	}
	var err error
	m.header, err = h.read(m.raw)
	m.garbled, m.raw = err != nil, nil
}

// original is the message as its dead letter needs it.
func (m *message) original() deadletter.Original {
	return deadletter.Original{Sequence: m.sequence, Subject: m.subject, Header: m.header, Garbled: m.garbled,
		Data: m.data}
}

// pull reads the document stream from one sequence on, through a separate consumer. Messages are not acknowledged.
// After any failure a new consumer starts at the next sequence. One request, bounded in bytes, is outstanding at a
// time. The library's iterators are not suitable: with a bound they request a larger message forever.
type pull struct {
	nc      *nats.Conn
	name    string        // of the consumer
	beat    time.Duration // between heartbeats, and ...
	silence time.Duration // ... the time without a message after which it is abandoned
	subject string        // receives requests for messages
	drop    string        // receives a request to delete the consumer
	inbox   string        // inbox.<request> receives the responses
	feed    *feed.Feed
	come    []feed.Delivery // received from the feed, not processed yet
	seen    uint64          // messages that the consumer has sent

	request int       // number of the last request
	since   time.Time // when the last request was made; before the first, when the consumer was created
	asked   bool      // whether the last request is outstanding
	batch   int       // messages that it may still deliver
	bytes   int64     // bytes that it may still deliver, 0 without a bound
	got     int       // messages that it delivered

	// State of the reader while it follows this consumer.
	heard time.Time // when the last message arrived, or when no request was outstanding
	next  uint64    // the reader's next sequence at the last call of look
}

const (
	// pullBatch bounds the messages of one request. The feed has room for all of them and more, so it never drops one.
	pullBatch = 4096
	pullRoom  = pullBatch + 1024
	// pullExpires ends a request that waits for new documents. Heartbeats distinguish a quiet stream from a failed
	// server.
	pullExpires   = 30 * time.Second
	pullHeartbeat = 2 * time.Second
	// silence is how long a consumer may send nothing, not even heartbeats, before it is abandoned. In a cluster it ends
	// without notice together with its server, and another one can be created immediately.
	silence          = 3 * pullHeartbeat
	clusterHeartbeat = 500 * time.Millisecond
	clusterSilence   = 4 * clusterHeartbeat
	// pullInactive is the default of Log.inactive.
	pullInactive = 2 * time.Minute
)

var (
	errPullLost = conn.Passing(errors.New("messages were lost on the way"))
	errPullGone = conn.Passing(errors.New("the consumer is gone"))
	// errPullIdle means that the consumer had no request for so long that the server is about to drop it.
	errPullIdle = errors.New("the consumer is idle")
)

// openPull creates a consumer that starts at sequence from. The server drops it after inactive without a request.
func openPull(ctx context.Context, client *conn.Client, stream jetstream.Stream, from uint64,
	inactive time.Duration) (*pull, error) {
	nc, name := client.Conn(), stream.CachedInfo().Config.Name
	p := &pull{nc: nc, since: time.Now(), inbox: nc.NewInbox(), name: "loaderd-" + nuid.Next(),
		beat: pullHeartbeat, silence: silence}
	if client.Clustered() {
		p.beat, p.silence = clusterHeartbeat, clusterSilence
	}
	p.subject = client.API("CONSUMER.MSG.NEXT", name, p.name)
	p.drop = client.API("CONSUMER.DELETE", name, p.name)
	err := client.Attempt(ctx, conn.AttemptLimit, func(ctx context.Context) error {
		_, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
			Name: p.name, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
			AckPolicy:     jetstream.AckNonePolicy,
			MemoryStorage: true, Replicas: 1, InactiveThreshold: inactive, Description: "loaderd document reader",
		})
		return err
	})
	if err != nil {
		p.close()
		time.AfterFunc(time.Second, p.close) // the server may still create the consumer later
		var refused *jetstream.APIError
		if errors.As(err, &refused) && !errors.Is(err, jetstream.ErrStreamNotFound) {
			err = conn.Passing(err) // the limit of consumers may be reached for now
		}
		return nil, fmt.Errorf("create consumer: %w", err)
	}
	if p.feed, err = feed.Open(client, p.inbox+".*", pullRoom); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return p, nil
}

// first returns the first of the received messages, or errDisconnected if the feed has ended.
func (p *pull) first() (*feed.Delivery, error) {
	if len(p.come) == 0 {
		return nil, errDisconnected
	}
	in := &p.come[0]
	p.come = p.come[1:]
	return in, nil
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
	}{p.batch, maxBytes, pullExpires, p.beat})
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	if err := p.feed.Request(p.subject, p.inbox+"."+strconv.Itoa(p.request), body); err != nil {
		return fmt.Errorf("request documents: %w", err)
	}
	return nil
}

// receive accounts for a delivery. m has no sequence if it is not a document. tooBig reports that the next document
// does not fit the request's bytes. pending is the number of messages after m.
func (p *pull) receive(in *feed.Delivery) (m message, pending uint64, tooBig bool, err error) {
	m = delivered(in)
	if len(in.Reply) == 0 {
		m.read(&headers{})
		tooBig, err = p.status(&m)
		m.block.Leave()
		return m, 0, tooBig, err
	}
	at, ok := placeOf(in.Reply)
	if !ok {
		return m, 0, false, conn.Passing(fmt.Errorf("a message says %q of its place", in.Reply))
	}
	p.seen++
	if at.consumer != p.seen {
		return m, 0, false, fmt.Errorf("%w: number %d came instead of %d", errPullLost, at.consumer, p.seen)
	}
	p.got++
	p.batch--
	if p.bytes > 0 {
		p.bytes -= int64(m.size)
		p.asked = p.batch > 0 && p.bytes > 0
	} else {
		p.asked = false
	}
	m.sequence, m.time = at.stream, at.time
	return m, at.pending, false, nil
}

// place is the position of a message as the server reports it.
type place struct {
	stream, consumer uint64 // its sequence in the stream, and among the consumer's messages
	time             time.Time
	pending          uint64 // messages after it
}

// placeOf parses the subject to which the message would be acknowledged:
// $JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<consumer's sequence>.<time>.<pending>. A domain and an account
// may follow ACK, and then further tokens may follow at the end.
func placeOf(ack []byte) (p place, ok bool) {
	const short, long = 9, 11
	var at [long][]byte
	words := at[:0]
	for word := range bytes.SplitSeq(ack, []byte(".")) {
		if len(words) < long {
			words = append(words, word)
		}
	}
	if len(words) != short && len(words) < long || !bytes.HasPrefix(ack, []byte("$JS.ACK.")) {
		return p, false
	}
	words = words[len(words)-short:]
	var numbers [4]uint64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseUint(string(words[5+i]), 10, 64); err != nil {
			return p, false
		}
	}
	return place{numbers[0], numbers[1], time.Unix(0, int64(numbers[2])), numbers[3]}, true
}

// status accounts for a status message of the server about a request.
func (p *pull) status(in *message) (tooBig bool, err error) {
	code, text := in.header.Get("Status"), in.header.Get("Description")
	switch {
	case code == "100": // idle heartbeat
		return false, nil
	case code == "503":
		return false, fmt.Errorf("%w: %w", errPullGone, nats.ErrNoResponders)
	case code == "409" && strings.HasPrefix(text, "Consumer"), code == "409" && strings.HasPrefix(text, "Server"):
		return false, fmt.Errorf("%w: %s", errPullGone, text)
	case in.subject != p.inbox+"."+strconv.Itoa(p.request):
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

// close deletes the consumer. If the request is lost, the server later drops the consumer as inactive.
func (p *pull) close() {
	if p.feed != nil {
		p.feed.Close()
	}
	if !p.nc.IsConnected() {
		return
	}
	// The request needs no response, which would change nothing.
	_ = p.nc.Publish(p.drop, nil)
}
