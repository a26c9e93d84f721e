package doclog

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
	garbled  bool   // it has headers that cannot be read
	raw      []byte // in place of header, until read is called with those of the last message
	data     []byte
	block    *feed.Block // in which raw and data lie; nil: in memory of their own
	size     int         // bytes on the wire
	time     time.Time
}

// delivered is a message of which its place is not known yet.
func delivered(d *feed.Delivery) message {
	return message{subject: d.Subject, header: d.Header, garbled: d.Garbled, raw: d.Raw, data: d.Data, block: d.Block,
		size: d.Size}
}

// read reads headers that came unread, which last until h reads others.
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

// pull reads the document stream from one sequence on, through a consumer of its own. Nothing is acknowledged: after
// any trouble a new consumer starts at the next sequence. One request is outstanding at a time, bounded in bytes. The
// library's own iterators do not serve: with a bound they ask for ever for a message that is larger.
type pull struct {
	nc      *nats.Conn
	name    string        // of the consumer
	beat    time.Duration // between heartbeats, and ...
	silence time.Duration // ... how long nothing may come before it is given up
	subject string        // takes requests for messages
	drop    string        // takes a request to drop the consumer
	inbox   string        // inbox.<request> takes what they bring
	feed    *feed.Feed
	come    []feed.Delivery // of the feed, not looked at yet
	seen    uint64          // messages that the consumer has sent

	request int       // number of the last request
	since   time.Time // when the last request was made; before the first, when the consumer was
	asked   bool      // whether the last request is outstanding
	batch   int       // messages it may still bring
	bytes   int64     // bytes it may still bring, 0 without a bound
	got     int       // messages it brought

	// Of the reader, while it follows this consumer.
	heard time.Time // when something came last, or when nothing was asked for
	next  uint64    // the reader's next sequence at the last look
}

const (
	// pullBatch bounds the messages of one request; the feed has room for all of them and more, so that nothing is ever
	// dropped.
	pullBatch = 4096
	pullRoom  = pullBatch + 1024
	// pullExpires ends a request that waits for new documents; heartbeats tell a quiet stream from a dead one.
	pullExpires   = 30 * time.Second
	pullHeartbeat = 2 * time.Second
	// silence is how long a consumer may send nothing, not even heartbeats, before it is given up. In a cluster it ends
	// without a word together with the server that has it, and another one can be made at once.
	silence          = 3 * pullHeartbeat
	clusterHeartbeat = 500 * time.Millisecond
	clusterSilence   = 4 * clusterHeartbeat
	// pullInactive is when the server drops a consumer that asks for nothing, unless the document log says otherwise.
	pullInactive = 2 * time.Minute
)

var (
	errPullLost = conn.Passing(errors.New("messages were lost on the way"))
	errPullGone = conn.Passing(errors.New("the consumer is gone"))
	// errPullIdle says that the consumer asked for nothing for so long that the server is about to drop it.
	errPullIdle = errors.New("the consumer is idle")
)

// openPull makes a consumer that starts at sequence from. The server drops it when it asks for nothing for as long as
// inactive.
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
		time.AfterFunc(time.Second, p.close) // the server may still make the consumer, and nobody would hear of it
		var refused *jetstream.APIError
		if errors.As(err, &refused) && !errors.Is(err, jetstream.ErrStreamNotFound) {
			err = conn.Passing(err) // there may be too many consumers for now
		}
		return nil, fmt.Errorf("create consumer: %w", err)
	}
	if p.feed, err = feed.Open(client, p.inbox+".*", pullRoom); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return p, nil
}

// first takes the first of the messages that have come; there is none where the feed has ended.
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

// receive accounts what came. m has no sequence when it was not a document; tooBig says that the next document does not
// fit the request's bytes. pending is the number of messages behind m.
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

// place is what the server says of where a message is.
type place struct {
	stream, consumer uint64 // its sequence in the stream, and among the consumer's messages
	time             time.Time
	pending          uint64 // messages behind it
}

// placeOf reads it from the subject to which the message would be acknowledged:
// $JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<the consumer's>.<time>.<pending>, or with a domain and an
// account behind ACK, and then perhaps with more at the end.
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

// status accounts a message of the server about a request.
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

// close drops the consumer. If the request is lost, the server drops it later by itself.
func (p *pull) close() {
	if p.feed != nil {
		p.feed.Close()
	}
	if !p.nc.IsConnected() {
		return
	}
	// A request that nobody waits for: the answer changes nothing.
	_ = p.nc.Publish(p.drop, nil)
}
