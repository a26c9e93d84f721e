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
	"github.com/nats-io/nuid"

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

// pull reads the document stream from one sequence on, through a consumer of its own. Nothing is acknowledged: after any trouble a new
// consumer starts at the next sequence. One request is outstanding at a time, bounded in bytes. The library's own iterators do not serve:
// with a bound they ask for ever for a message that is larger.
type pull struct {
	nc      *nats.Conn
	name    string        // of the consumer
	beat    time.Duration // between heartbeats, and ...
	silence time.Duration // ... how long nothing may come before it is given up
	subject string        // takes requests for messages
	drop    string        // takes a request to drop the consumer
	inbox   string        // inbox.<request> takes what they bring
	sub     *nats.Subscription
	msgs    chan *nats.Msg
	seen    uint64 // messages that the consumer has sent

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
	// pullBatch bounds the messages of one request; msgs has room for all of them, so that nothing is ever dropped.
	pullBatch = 4096
	// pullExpires ends a request that waits for new documents; heartbeats tell a quiet stream from a dead one.
	pullExpires   = 30 * time.Second
	pullHeartbeat = 2 * time.Second
	// silence is how long a consumer may send nothing, not even heartbeats, before it is given up. In a cluster it ends without a word
	// together with the server that has it, and another one can be made at once.
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

// openPull makes a consumer that starts at sequence from. The server drops it when it asks for nothing for as long as inactive.
func openPull(ctx context.Context, client *conn.Client, stream jetstream.Stream, from uint64, inactive time.Duration) (*pull, error) {
	nc, name := client.Conn(), stream.CachedInfo().Config.Name
	p := &pull{nc: nc, since: time.Now(), inbox: nc.NewInbox(), msgs: make(chan *nats.Msg, pullBatch+1024), name: "loaderd-" + nuid.Next(),
		beat: pullHeartbeat, silence: silence}
	if client.Clustered() {
		p.beat, p.silence = clusterHeartbeat, clusterSilence
	}
	p.subject = client.API("CONSUMER.MSG.NEXT", name, p.name)
	p.drop = client.API("CONSUMER.DELETE", name, p.name)
	err := client.Attempt(ctx, conn.AttemptLimit, func(ctx context.Context) error {
		_, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
			Name: p.name, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, AckPolicy: jetstream.AckNonePolicy,
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
	}{p.batch, maxBytes, pullExpires, p.beat})
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
		// The library leaves out headers that it cannot read; only the size shows it.
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

// close drops the consumer. If the request is lost, the server drops it later by itself.
func (p *pull) close() {
	if p.sub != nil {
		_ = p.sub.Unsubscribe()
	}
	if !p.nc.IsConnected() {
		return
	}
	// A request that nobody waits for: the answer changes nothing.
	_ = p.nc.Publish(p.drop, nil)
}
