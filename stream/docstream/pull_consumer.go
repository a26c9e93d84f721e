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

	"loaderd/loader/document"
	"loaderd/stream/conn"
	"loaderd/stream/deadletter"
	"loaderd/stream/feed"
)

// message is one message of the document stream.
type message struct {
	sequence   uint64
	subject    string
	header     nats.Header
	malformed  bool   // its headers cannot be parsed
	rawHeaders []byte // unparsed headers, instead of header until read is called
	data       []byte
	block      *feed.Block // that holds raw and data; nil if they are not in a block
	size       int         // bytes on the wire, or of the stored document
	time       time.Time
	// stored is the document of the message from the token store, if the message was not read; else nil.
	stored *document.Document
}

// rawMessage returns a message that was read by its sequence.
func rawMessage(m *jetstream.RawStreamMsg) message {
	size := len(m.Subject) + len(m.Data)
	for key, values := range m.Header {
		for _, value := range values {
			size += len(key) + len(value) + len(": \r\n")
		}
	}
	return message{sequence: m.Sequence, subject: m.Subject, header: m.Header, data: m.Data, size: size, time: m.Time}
}

// newMessage returns a delivery as a message, without its sequence and time.
func newMessage(d *feed.Delivery) message {
	return message{subject: d.Subject, header: d.Header, malformed: d.MalformedHeaders, rawHeaders: d.RawHeaders,
		data: d.Data, block: d.Block,
		size: d.Size}
}

// parseHeaders parses raw headers. The result is valid until h reads other headers.
func (m *message) parseHeaders(h *headerParser) {
	if m.rawHeaders == nil {
		return
	}
	var err error
	m.header, err = h.parse(m.rawHeaders)
	m.malformed, m.rawHeaders = err != nil, nil
}

// toOriginal is the message as its dead letter needs it.
func (m *message) toOriginal() deadletter.Original {
	return deadletter.Original{Sequence: m.sequence, Subject: m.subject, Header: m.header, MalformedHeaders: m.malformed,
		Data: m.data}
}

// pullConsumer reads the document stream from one sequence on, through a separate consumer. Messages are not
// acknowledged. After any failure a new consumer starts at the next sequence. One request, bounded in bytes, is
// outstanding at a time. The library's iterators are not suitable: with a bound they request a larger message forever.
type pullConsumer struct {
	nc               *nats.Conn
	name             string        // of the consumer
	heartbeat        time.Duration // between heartbeats, and ...
	heartbeatTimeout time.Duration // ... the time without a message after which it is abandoned
	requestSubject   string        // receives requests for messages
	deleteSubject    string        // receives a request to delete the consumer
	inbox            string        // inbox.<request> receives the responses
	feed             *feed.Feed
	received         []feed.Delivery // received from the feed, not processed yet
	sentCount        uint64          // messages that the consumer has sent

	requestNumber  int       // number of the last request
	requestedAt    time.Time // when the last request was made; before the first, when the consumer was created
	requestPending bool      // whether the last request is outstanding
	messagesLeft   int       // messages that it may still deliver
	bytesLeft      int64     // bytes that it may still deliver, 0 without a bound
	deliveredCount int       // messages that it delivered

	// State of the reader while it follows this consumer.
	lastMessage time.Time // when the last message arrived, or when no request was outstanding
	nextAtCheck uint64    // the reader's next sequence at the last call of look
}

const (
	// maxPullMessages bounds the messages of one request. The feed has room for all of them and more, so it never drops
	// one.
	maxPullMessages = 4096
	feedCapacity    = maxPullMessages + 1024
	// pullTimeout ends a request that waits for new documents. Heartbeats distinguish a quiet stream from a failed
	// server.
	pullTimeout   = 30 * time.Second
	pullHeartbeat = 2 * time.Second
	// pullHeartbeatTimeout is how long a consumer may send nothing, not even heartbeats, before it is abandoned. In a
	// cluster it ends without notice together with its server, and another one can be created immediately.
	pullHeartbeatTimeout    = 3 * pullHeartbeat
	clusterHeartbeat        = 500 * time.Millisecond
	clusterHeartbeatTimeout = 4 * clusterHeartbeat
	// inactiveTimeout is the default of Log.inactive.
	inactiveTimeout = 2 * time.Minute
)

var (
	errPullLost = conn.AsTransient(errors.New("messages were lost on the way"))
	errPullGone = conn.AsTransient(errors.New("the consumer is gone"))
	// errPullIdle means that the consumer had no request for so long that the server is about to drop it.
	errPullIdle = errors.New("the consumer is idle")
)

// openPullConsumer creates a consumer that starts at sequence from. The server drops it after inactive without a
// request.
func openPullConsumer(ctx context.Context, client *conn.Client, stream jetstream.Stream, from uint64,
	inactive time.Duration) (*pullConsumer, error) {
	nc, name := client.Conn(), stream.CachedInfo().Config.Name
	p := &pullConsumer{nc: nc, requestedAt: time.Now(), inbox: nc.NewInbox(), name: "loaderd-" + nuid.Next(),
		heartbeat: pullHeartbeat, heartbeatTimeout: pullHeartbeatTimeout}
	if client.Clustered() {
		p.heartbeat, p.heartbeatTimeout = clusterHeartbeat, clusterHeartbeatTimeout
	}
	p.requestSubject = client.API("CONSUMER.MSG.NEXT", name, p.name)
	p.deleteSubject = client.API("CONSUMER.DELETE", name, p.name)
	err := client.Attempt(ctx, conn.AttemptTimeout, func(ctx context.Context) error {
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
			err = conn.AsTransient(err) // the limit of consumers may be reached for now
		}
		return nil, fmt.Errorf("create consumer: %w", err)
	}
	if p.feed, err = feed.Open(client, p.inbox+".*", feedCapacity); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return p, nil
}

// popDelivery returns the first of the received messages, or errDisconnected if the feed has ended.
func (p *pullConsumer) popDelivery() (*feed.Delivery, error) {
	if len(p.received) == 0 {
		return nil, errDisconnected
	}
	in := &p.received[0]
	p.received = p.received[1:]
	return in, nil
}

// sendRequest requests messages of at most maxBytes together; 0 requests one message of any size.
func (p *pullConsumer) sendRequest(maxBytes int64) error {
	p.requestNumber++
	p.requestedAt = time.Now()
	p.requestPending, p.deliveredCount, p.bytesLeft, p.messagesLeft = true, 0, maxBytes, maxPullMessages
	if maxBytes == 0 {
		p.messagesLeft = 1
	}
	body, err := json.Marshal(struct {
		Batch     int           `json:"batch"`
		MaxBytes  int64         `json:"max_bytes,omitempty"`
		Expires   time.Duration `json:"expires"`
		Heartbeat time.Duration `json:"idle_heartbeat"`
	}{p.messagesLeft, maxBytes, pullTimeout, p.heartbeat})
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	if err := p.feed.Request(p.requestSubject, p.inbox+"."+strconv.Itoa(p.requestNumber), body); err != nil {
		return fmt.Errorf("request documents: %w", err)
	}
	return nil
}

// receive accounts for a delivery. m has no sequence if it is not a document. tooBig reports that the next document
// does not fit the request's bytes. pending is the number of messages after m.
func (p *pullConsumer) receive(in *feed.Delivery) (m message, pending uint64, tooBig bool, err error) {
	m = newMessage(in)
	if len(in.Reply) == 0 {
		m.parseHeaders(&headerParser{})
		tooBig, err = p.handleStatus(&m)
		m.block.Release()
		return m, 0, tooBig, err
	}
	at, ok := parseAckSubject(in.Reply)
	if !ok {
		return m, 0, false, conn.AsTransient(fmt.Errorf("a message has the invalid reply subject %q", in.Reply))
	}
	p.sentCount++
	if at.consumer != p.sentCount {
		return m, 0, false, fmt.Errorf("%w: received number %d instead of %d", errPullLost, at.consumer, p.sentCount)
	}
	p.deliveredCount++
	p.messagesLeft--
	if p.bytesLeft > 0 {
		p.bytesLeft -= int64(m.size)
		p.requestPending = p.messagesLeft > 0 && p.bytesLeft > 0
	} else {
		p.requestPending = false
	}
	m.sequence, m.time = at.stream, at.time
	return m, at.pending, false, nil
}

// ackPosition is the position of a message as the server reports it.
type ackPosition struct {
	stream, consumer uint64 // its sequence in the stream, and among the consumer's messages
	time             time.Time
	pending          uint64 // messages after it
}

// parseAckSubject parses the subject to which the message would be acknowledged:
// $JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<consumer's sequence>.<time>.<pending>. A domain and an account
// may follow ACK, and then further tokens may follow at the end.
func parseAckSubject(ack []byte) (p ackPosition, ok bool) {
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
	return ackPosition{numbers[0], numbers[1], time.Unix(0, int64(numbers[2])), numbers[3]}, true
}

// handleStatus accounts for a status message of the server about a request.
func (p *pullConsumer) handleStatus(in *message) (tooBig bool, err error) {
	code, text := in.header.Get("Status"), in.header.Get("Description")
	switch {
	case code == "100": // idle heartbeat
		return false, nil
	case code == "503":
		return false, fmt.Errorf("%w: %w", errPullGone, nats.ErrNoResponders)
	case code == "409" && strings.HasPrefix(text, "Consumer"), code == "409" && strings.HasPrefix(text, "Server"):
		return false, fmt.Errorf("%w: %s", errPullGone, text)
	case in.subject != p.inbox+"."+strconv.Itoa(p.requestNumber):
		return false, nil // the end of an earlier request
	}
	p.requestPending = false
	switch {
	case code == "408" || code == "404":
		return false, nil
	case code == "409" && strings.Contains(text, "MaxBytes"):
		return p.deliveredCount == 0, nil
	case code == "409" && strings.HasPrefix(text, "Batch Completed"):
		return false, nil
	default:
		return false, fmt.Errorf("%w: %s %s", errPullGone, code, text)
	}
}

// close deletes the consumer. If the request is lost, the server later drops the consumer as inactive.
func (p *pullConsumer) close() {
	if p.feed != nil {
		p.feed.Close()
	}
	if !p.nc.IsConnected() {
		return
	}
	// The request needs no response, which would change nothing.
	_ = p.nc.Publish(p.deleteSubject, nil)
}
