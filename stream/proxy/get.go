package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Stream is a stream that producers may read by gets.
type Stream struct {
	Name string
	// Subjects are those of documents: a single one, or a prefix ("docs.>"). Producers get headers of documents without
	// payloads. A stream without subjects is a key-value bucket, whose values producers get.
	Subjects []string
}

// streams are the registered streams.
type streams struct {
	mu  sync.Mutex
	all []*Stream
}

func (s *streams) add(all ...Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range all {
		if !slices.ContainsFunc(s.all, func(y *Stream) bool { return y.Name == x.Name }) {
			s.all = append(s.all, &x)
		}
	}
}

// forSubject returns the stream that accepts documents of a subject. If several match, the one with the longest pattern
// is the stream of a source.
func (s *streams) forSubject(subject string) *Stream {
	longest := 0
	return s.find(func(x *Stream) bool {
		better := false
		for _, pattern := range x.Subjects {
			below, wildcard := strings.CutSuffix(pattern, ">")
			if n := len(pattern); (pattern == subject || wildcard && strings.HasPrefix(subject, below)) && n > longest {
				longest, better = n, true
			}
		}
		return better
	})
}

// Requests for stored messages: from any replica, and from the leader.
const (
	directGet = "$JS.API.DIRECT.GET."
	leaderGet = "$JS.API.STREAM.MSG.GET."
)

// forRequest returns the stream that a request gets messages from; nil for another request.
func (s *streams) forRequest(request string) *Stream {
	name, found := strings.CutPrefix(request, leaderGet)
	if !found {
		if name, found = strings.CutPrefix(request, directGet); !found {
			return nil
		}
		name, _, _ = strings.Cut(name, ".")
	}
	return s.find(func(x *Stream) bool { return x.Name == name })
}

// find returns the last stream that matches.
func (s *streams) find(match func(*Stream) bool) (found *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.all {
		if match(x) {
			found = x
		}
	}
	return found
}

const (
	// maxConcurrentGets bounds the concurrent gets of the proxy. Each holds getBytes and one message.
	maxConcurrentGets = 2
	getBytes          = 8 << 20
	// A get counts as getWeight operations, and as getWeight more per weighedMessages messages of its response.
	getWeight       = 10
	weighedMessages = 256
	// GetMessages bounds the messages of one get.
	GetMessages = 1024
	// maxResponseBytes bounds the response to one get: headers of documents, or values of a bucket.
	maxResponseBytes = 128 << 10
	// maxPendingBeforeGet bounds the pending bytes of a client before its next get starts.
	maxPendingBeforeGet = 128 << 10
	// getTimeout bounds the wait for each message of a response.
	getTimeout = 5 * time.Second
)

// responsePart is one message of a response.
type responsePart struct{ head, payload []byte }

// serveGet executes a producer's get, one at a time per connection, and sends the response.
func (c *producer) serveGet(stream *Stream, m message, question []byte) error {
	if !c.proxy.inboxes.isOwner(inboxName(m.reply), c) {
		return c.reportDenied(m.subject, "the answer to a get goes to an inbox that the connection has subscribed to")
	}
	if err := c.serverWriter.Flush(); err != nil { // the get may read messages that were published before
		return err
	}
	if !c.outbox.awaitPending(maxPendingBeforeGet) {
		return net.ErrClosed
	}
	if err := c.waitLimit(c.proxy.otherLimiter, getWeight); err != nil {
		return err
	}
	parts, err := c.proxy.executeGet(c.ctx, stream, m.subject, question)
	if err != nil {
		return c.ctx.Err() // the client's own request timeout is shorter than this
	}
	c.proxy.otherLimiter.ReserveN(time.Now(), getWeight*len(parts)/weighedMessages)
	for _, x := range parts {
		if err := c.sendResponse(message{subject: m.reply}, x.head, x.payload); err != nil {
			return err
		}
	}
	return nil
}

// executeGet executes a get and returns its response.
func (p *Proxy) executeGet(ctx context.Context, stream *Stream, request string,
	question []byte) ([]responsePart, error) {
	if err := p.getLimiter.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer p.getLimiter.Release(1)
	var asked server.JSApiMsgGetRequest
	leader := strings.HasPrefix(request, leaderGet)
	a := getResponse{stream: stream, leader: leader}
	if !leader && json.Unmarshal(question, &asked) == nil {
		a.lastPerSubject = len(asked.MultiLastFor) > 0
		a.multiple = a.lastPerSubject || asked.Batch != 0
	}
	if a.multiple {
		asked.Batch = min(asked.Batch, GetMessages)
		if asked.MaxBytes <= 0 || asked.MaxBytes > getBytes {
			asked.MaxBytes = getBytes
		}
		var err error
		if question, err = json.Marshal(asked); err != nil {
			return nil, err
		}
	}
	reply := p.options.Documents.NewInbox()
	sub, err := p.options.Documents.SubscribeSync(reply)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection is closed
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, err
	}
	if err := p.options.Documents.PublishRequest(request, reply, question); err != nil {
		return nil, err
	}
	for !a.ended {
		m, err := nextMessage(ctx, sub)
		if err != nil {
			return nil, err
		}
		if err := a.add(m); err != nil {
			return nil, err
		}
	}
	return a.parts, nil
}

func nextMessage(ctx context.Context, sub *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}

// getResponse is the response to a get, in the producer's form.
type getResponse struct {
	stream         *Stream
	multiple       bool // messages, followed by a status
	lastPerSubject bool // ... only the last one of each subject
	leader         bool // from the leader, in JSON

	parts []responsePart
	bytes int
	ended bool
}

// add adds a message of the server's response.
func (a *getResponse) add(m *nats.Msg) error {
	status := m.Header.Get("Status") != "" && m.Header.Get("Nats-Sequence") == ""
	a.ended = !a.multiple || status
	x := responsePart{head: encodeHeaders(m.Header, status)}
	switch {
	case status:
	case a.leader:
		var err error
		if x.payload, err = a.stripPayload(m.Data); err != nil {
			return err
		}
	case len(a.stream.Subjects) == 0:
		x.payload = m.Data
	}
	if len(x.payload) > 2*valueLimit { // in base64
		*a = getResponse{ended: true, parts: []responsePart{{head: tooLarge}}}
		return nil
	}
	a.parts = append(a.parts, x)
	if a.bytes += len(x.head) + len(x.payload); a.bytes < maxResponseBytes || a.ended {
		return nil
	}
	// The next get returns the remaining messages, as after max_bytes. A bucket has no next get.
	a.ended = true
	if a.lastPerSubject {
		a.parts = []responsePart{{head: tooLarge}}
		return nil
	}
	end := fmt.Appendf(nil, endOfBatch, m.Header.Get("Nats-Num-Pending"), m.Header.Get("Nats-Sequence"))
	a.parts = append(a.parts, responsePart{head: end})
	return nil
}

// endOfBatch is the status that the server sends after the messages of a response.
const endOfBatch = "NATS/1.0 204 EOB\r\nNats-Num-Pending: %s\r\nNats-Last-Sequence: %s\r\n\r\n"

var tooLarge = []byte("NATS/1.0 413 Answer Too Large\r\n\r\n")

// stripPayload returns a leader's response without the payload of a document.
func (a *getResponse) stripPayload(text []byte) ([]byte, error) {
	if len(a.stream.Subjects) == 0 {
		return text, nil
	}
	var response server.JSApiMsgGetResponse
	if err := json.Unmarshal(text, &response); err != nil {
		return nil, err
	}
	if response.Message != nil {
		response.Message.Data = nil
	}
	return json.Marshal(response)
}

// encodeHeaders writes headers in the server's form, with a status in the first line.
func encodeHeaders(h nats.Header, status bool) []byte {
	if len(h) == 0 {
		return nil
	}
	b := []byte("NATS/1.0")
	if status {
		b = bytes.TrimRight(fmt.Appendf(b, " %s %s", h.Get("Status"), h.Get("Description")), " ")
	}
	b = append(b, crlf...)
	for key, values := range h {
		if key == "Status" || key == "Description" { // a document's own header could be mistaken for the server's
			continue
		}
		for _, v := range values {
			b = append(append(append(append(b, key...), ": "...), v...), crlf...)
		}
	}
	return append(b, crlf...)
}
