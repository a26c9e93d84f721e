package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"
)

// Limits on message ids of producers. The server keeps an id for the stream's duplicate window, with an overhead of
// about IDOverhead bytes.
const (
	IDLimit    = 512              // bytes per id
	IDBytes    = 256 << 20        // bytes of all ids in a window; the members of a cluster share them
	IDWindow   = 30 * time.Second // the duplicate window
	IDOverhead = 128

	idBurst = 16 << 20 // burst within IDBytes
)

const (
	// headerLimit bounds the headers of a message, as JetStream does.
	headerLimit = 64 << 10
	// requestLimit bounds a request to JetStream.
	requestLimit = 8 << 10
	// valueLimit bounds the value of one write to, and one get from, a key-value bucket.
	valueLimit = 64 << 10
	// subscriptionLimit bounds the subscriptions of a connection, each of which gets a copy of a response.
	subscriptionLimit = 64
	// othersPerSecond bounds the operations of all producers that publish no document, beyond a burst: pings,
	// subscriptions, requests, records, and refused messages.
	othersPerSecond = 5000
	othersBurst     = 10_000
	// batchIDLimit is the server's own limit.
	batchIDLimit = 64
	// lingerTimeout bounds the wait for a client to read pending data when its connection ends.
	lingerTimeout = 5 * time.Second

	inboxPrefix = "_INBOX."
	apiPrefix   = "$JS."
	infoPrefix  = "$JS.API.STREAM.INFO."
	kvPrefix    = "$KV."
)

// Error codes of JetStream that publishers handle.
const (
	codeMessageTooLarge = 10054
	codeBatchTooLarge   = 10199
	codeAtomicDisabled  = 10174
)

// refusal is JetStream's form of an error.
type refusal struct {
	Code        int    `json:"code"`
	ErrorCode   int    `json:"err_code"`
	Description string `json:"description"`
}

// refuse returns the error of a message that a producer may not send.
func refuse(code int, format string, v ...any) *refusal {
	return &refusal{http.StatusBadRequest, code, fmt.Sprintf(format, v...)}
}

// producer is a connection with the token of producers.
type producer struct {
	p      *Proxy
	ctx    context.Context
	raw    connection
	client net.Conn // above TLS
	server net.Conn

	fromUser *bufio.Reader
	fromServ *bufio.Reader
	toServ   *bufio.Writer // used by the goroutine that reads the client
	box      *outbox
	scratch  []byte
	window   window

	mu   sync.Mutex
	subs map[string]*subscription // by sid
}

// subscription is a subscription of a producer.
type subscription struct {
	inbox string
	seen  int // deliveries
	left  int // deliveries until it ends; 0 for unlimited
}

func newProducer(ctx context.Context, p *Proxy, raw connection, s *session) *producer {
	c := &producer{
		p: p, ctx: ctx, raw: raw, client: s.client, server: s.server, fromServ: s.fromServ,
		toServ: bufio.NewWriterSize(s.server, copyBytes), box: newOutbox(), subs: map[string]*subscription{},
	}
	_ = raw.SetWriteBuffer(sendBuffer) // an error means that the connection is closed
	first, _ := s.fromUser.Peek(s.fromUser.Buffered())
	c.fromUser = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(first), flushing{c}), headerLimit)
	return c
}

// flushing reads from the client. It flushes forwarded data before it may block.
type flushing struct{ c *producer }

func (f flushing) Read(b []byte) (int, error) {
	if err := f.c.toServ.Flush(); err != nil {
		return 0, err
	}
	return f.c.client.Read(b)
}

// run forwards in both directions until one of them ends.
func (c *producer) run() {
	var others sync.WaitGroup
	others.Go(func() {
		c.deliver()
		_ = c.client.SetWriteDeadline(time.Now().Add(lingerTimeout))
		c.box.close()
	})
	others.Go(func() {
		c.box.write(c.client)
		_ = c.client.Close() // ends forward
	})
	if err := c.forward(); errors.Is(err, errProtocol) {
		c.tell(err.Error())
	}
	_ = c.toServ.Flush()
	_ = c.server.Close() // ends deliver
	others.Wait()
	for _, x := range c.p.batches.release(c) {
		c.p.abandon(x)
	}
	c.unsubscribeAll()
}

// deliver forwards data from the server to the client.
func (c *producer) deliver() {
	var whole []byte
	for {
		var err error
		if whole, err = c.received(whole[:0]); err != nil {
			return
		}
		if !c.box.add(whole) {
			c.p.o.Log.Noticef(logged(c.raw)+"Slow Consumer Detected: MaxPending of %d Exceeded", PendingBytes)
			c.raw.Misuse("answers are not read") // the pending data is dropped
			return
		}
		if cap(whole) > copyBytes {
			whole = nil
		}
	}
}

// received reads the server's next line and the message after it.
func (c *producer) received(into []byte) ([]byte, error) {
	whole, err := readLine(c.fromServ, into, infoLine)
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(whole, []byte("INFO ")):
		return c.p.info(whole), nil
	case !bytes.HasPrefix(whole, []byte("MSG ")) && !bytes.HasPrefix(whole, []byte("HMSG ")):
		return whole, nil
	}
	w, ok := split(whole)
	if !ok {
		return nil, errProtocol
	}
	before, _, size, ok := sizes(w.args(), whole[0] == 'H')
	if !ok || len(before) < 2 {
		return nil, errProtocol
	}
	c.delivered(string(before[1]))
	n := len(whole)
	if size > PendingBytes {
		return make([]byte, PendingBytes+1), nil // exceeds the pending limit of every client
	}
	whole = append(whole, make([]byte, size+len(crlf))...)
	_, err = io.ReadFull(c.fromServ, whole[n:])
	return whole, err
}

// forward forwards data from the client to the server, within the limits.
func (c *producer) forward() error {
	for {
		line, err := c.fromUser.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) || len(line) > controlLine {
			return errProtocol
		}
		if err != nil {
			return err
		}
		w, ok := split(line)
		if !ok {
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			return errProtocol
		}
		args, verb := w.args(), strings.ToUpper(string(w.at[0]))
		if verb != "PUB" && verb != "HPUB" {
			if err := c.wait(c.p.others, 1); err != nil {
				return err
			}
		}
		switch verb {
		case "PING":
			_, err = c.toServ.WriteString("PING\r\n")
		case "PONG":
			_, err = c.toServ.WriteString("PONG\r\n")
		case "SUB":
			err = c.subscribe(args)
		case "UNSUB":
			err = c.unsubscribe(args)
		case "PUB":
			err = c.publish(args, false)
		case "HPUB":
			err = c.publish(args, true)
		default:
			err = errProtocol
		}
		if err != nil {
			return err
		}
	}
}

// publish forwards or refuses a message of the client.
func (c *producer) publish(args [][]byte, hasHeaders bool) error {
	m, ok := published(args, hasHeaders)
	if !ok {
		return errProtocol
	}
	switch {
	case strings.HasPrefix(m.subject, apiPrefix):
		return c.request(m)
	case strings.HasPrefix(m.subject, inboxPrefix):
		if err := c.skip(m.size); err != nil {
			return err
		}
		return c.deny(m.subject, "answers are the server's")
	case m.head > headerLimit:
		return c.refuse(m, refuse(codeMessageTooLarge, "message has %d bytes of headers, at most %d are permitted",
			m.head, headerLimit))
	case strings.HasPrefix(m.subject, kvPrefix) && m.size > valueLimit:
		return c.refuse(m, refuse(codeMessageTooLarge, "record has %d bytes, producers may store at most %d",
			m.size, valueLimit))
	}
	documents, staged := 1, false // documents of an atomic batch are stored with its last message
	if m.head > 0 {
		head, err := c.fromUser.Peek(m.head)
		if err != nil {
			return err
		}
		h := scan(head)
		staged = len(h.batch) > 0 && !h.commit
		var refused *refusal
		documents, refused = c.check(m, h)
		switch {
		case refused == nil:
		case staged && m.reply == "": // the response to the batch's last message contains the reason
			return c.skip(m.size)
		default:
			return c.refuse(m, refused)
		}
		if err := c.waitForID(h); err != nil {
			return err
		}
	}
	if err := c.copy(m); err != nil || staged {
		return err
	}
	return c.published(m, documents)
}

// check applies the limits on ids and batches. It returns how many documents the message's batch has so far, or 1
// without a batch.
func (c *producer) check(m message, h headers) (documents int, refused *refusal) {
	if h.longestID > IDLimit {
		refused = refuse(codeMessageTooLarge, "message id (Nats-Msg-Id) has %d bytes, producers may use at most %d",
			h.longestID, IDLimit)
	}
	if len(h.batch) == 0 || len(h.batch) > batchIDLimit {
		return 1, refused
	}
	stream := c.p.streams.of(m.subject)
	if stream == nil {
		return 1, refuse(codeAtomicDisabled, "atomic batches are for documents")
	}
	id := batchID{stream.Name, string(h.batch)}
	x := part{m.subject, int64(len(m.subject) + m.size), h.commit, refused}
	documents, abandoned, refused := c.p.batches.stage(c, id, x, time.Now())
	for _, x := range abandoned {
		c.p.abandon(x)
	}
	return documents, refused
}

// waitForID waits for the rate limit on ids.
func (c *producer) waitForID(h headers) error {
	if h.longestID == 0 {
		return nil
	}
	return c.wait(c.p.ids, h.longestID+IDOverhead)
}

// wait waits for a rate limit that all producers share.
func (c *producer) wait(l *rate.Limiter, n int) error {
	if l.AllowN(time.Now(), n) {
		return nil
	}
	if err := c.toServ.Flush(); err != nil {
		return err
	}
	return l.WaitN(c.ctx, n)
}

// abandon makes the server drop a batch: a message with a wrong sequence ends the batch, and has no effect if none
// exists.
func (p *Proxy) abandon(x *batch) {
	_ = p.o.Documents.PublishMsg(&nats.Msg{Subject: x.subject, Header: nats.Header{
		"Nats-Batch-Id": {x.id.id}, "Nats-Batch-Sequence": {"1000000000"},
	}})
}

// copy forwards a message whose line has been read.
func (c *producer) copy(m message) error {
	c.scratch = m.line(c.scratch[:0])
	if _, err := c.toServ.Write(c.scratch); err != nil {
		return err
	}
	return c.content(m.size, c.toServ)
}

// skip drops the content of a message.
func (c *producer) skip(size int) error { return c.content(size, io.Discard) }

// content copies the content of a message, and its end of line. It does not use io.CopyN: reading may flush the writer.
func (c *producer) content(size int, to io.Writer) error {
	for size > 0 {
		if _, err := c.fromUser.Peek(1); err != nil { // fills the buffer
			return err
		}
		b, _ := c.fromUser.Peek(min(size, c.fromUser.Buffered()))
		if _, err := to.Write(b); err != nil {
			return err
		}
		size -= len(b)
		_, _ = c.fromUser.Discard(len(b))
	}
	end, err := c.fromUser.Peek(len(crlf))
	if err != nil {
		return err
	}
	if !bytes.Equal(end, crlf) {
		return errProtocol
	}
	_, _ = c.fromUser.Discard(len(crlf))
	_, err = to.Write(crlf)
	return err
}

// request forwards a request to JetStream, or responds to it.
func (c *producer) request(m message) error {
	if err := c.wait(c.p.others, 1); err != nil {
		return err
	}
	if m.size > requestLimit {
		return c.refuse(m, refuse(codeMessageTooLarge, "request has %d bytes, at most %d are permitted",
			m.size, requestLimit))
	}
	body, err := c.fromUser.Peek(m.size)
	if err != nil {
		return err
	}
	if stream := c.p.streams.requested(m.subject); stream != nil {
		question := bytes.Clone(body[m.head:])
		if err := c.skip(m.size); err != nil {
			return err
		}
		return c.get(stream, m, question)
	}
	if strings.HasPrefix(m.subject, infoPrefix) && m.size > 0 {
		// Its options would extend the response: all subjects, or all deleted messages, of a stream.
		if err := c.skip(m.size); err != nil {
			return err
		}
		return c.answer(m, nil, nil)
	}
	return c.copy(m)
}

// answer publishes a message of the proxy over the client's connection to the server.
func (c *producer) answer(m message, head, payload []byte) error {
	m.head, m.size = len(head), len(head)+len(payload)
	c.scratch = append(append(append(m.line(c.scratch[:0]), head...), payload...), crlf...)
	_, err := c.toServ.Write(c.scratch)
	return err
}

// refuse drops a message and responds with an error.
func (c *producer) refuse(m message, why *refusal) error {
	if err := c.skip(m.size); err != nil {
		return err
	}
	if !strings.HasPrefix(m.reply, inboxPrefix) {
		return c.deny(m.subject, why.Description)
	}
	if err := c.wait(c.p.others, 1); err != nil {
		return err
	}
	text, err := json.Marshal(struct {
		Error *refusal `json:"error"`
	}{why})
	if err != nil {
		return err
	}
	return c.answer(message{subject: m.reply}, nil, text)
}

// deny reports to the client that a message was dropped. Client libraries do not disconnect on this form of error.
func (c *producer) deny(subject, why string) error {
	c.tell(fmt.Sprintf("Permissions Violation for Publish to %q: %s", subject, why))
	return c.wait(c.p.others, 1)
}

// tell sends a protocol error. If the outbox is full, the client does not read.
func (c *producer) tell(text string) {
	c.box.add(fmt.Appendf(nil, "-ERR '%s'\r\n", text))
}
