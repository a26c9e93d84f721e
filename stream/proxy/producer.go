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
	// otherOpsPerSecond bounds the operations of all producers that publish no document, beyond a burst: pings,
	// subscriptions, requests, records, and refused messages.
	otherOpsPerSecond = 5000
	otherOpsBurst     = 10_000
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

// newRefusal returns the error of a message that a producer may not send.
func newRefusal(code int, format string, v ...any) *refusal {
	return &refusal{http.StatusBadRequest, code, fmt.Sprintf(format, v...)}
}

// producer is a connection with the token of producers.
type producer struct {
	proxy  *Proxy
	ctx    context.Context
	raw    connection
	client net.Conn // above TLS
	server net.Conn

	clientReader *bufio.Reader
	serverReader *bufio.Reader
	serverWriter *bufio.Writer // used by the goroutine that reads the client
	outbox       *outbox
	scratch      []byte
	partCounter  partCounter

	mu   sync.Mutex
	subs map[string]*subscription // by sid
}

// subscription is a subscription of a producer.
type subscription struct {
	inbox      string
	deliveries int // deliveries
	remaining  int // deliveries until it ends; 0 for unlimited
}

func newProducer(ctx context.Context, p *Proxy, raw connection, s *session) *producer {
	c := &producer{
		proxy: p, ctx: ctx, raw: raw, client: s.client, server: s.server, serverReader: s.serverReader,
		serverWriter: bufio.NewWriterSize(s.server, copyBytes), outbox: newOutbox(), subs: map[string]*subscription{},
	}
	_ = raw.SetWriteBuffer(sendBuffer) // an error means that the connection is closed
	first, _ := s.clientReader.Peek(s.clientReader.Buffered())
	c.clientReader = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(first), flushingReader{c}), headerLimit)
	return c
}

// flushingReader reads from the client. It flushes forwarded data before it may block.
type flushingReader struct{ c *producer }

func (f flushingReader) Read(b []byte) (int, error) {
	if err := f.c.serverWriter.Flush(); err != nil {
		return 0, err
	}
	return f.c.client.Read(b)
}

// run forwards in both directions until one of them ends.
func (c *producer) run() {
	var others sync.WaitGroup
	others.Go(func() {
		c.forwardServer()
		_ = c.client.SetWriteDeadline(time.Now().Add(lingerTimeout))
		c.outbox.close()
	})
	others.Go(func() {
		c.outbox.write(c.client)
		_ = c.client.Close() // ends forward
	})
	if err := c.forwardClient(); errors.Is(err, errProtocol) {
		c.sendError(err.Error())
	}
	_ = c.serverWriter.Flush()
	_ = c.server.Close() // ends deliver
	others.Wait()
	for _, x := range c.proxy.batches.releaseOwner(c) {
		c.proxy.abandonBatch(x)
	}
	c.unsubscribeAll()
}

// forwardServer forwards data from the server to the client.
func (c *producer) forwardServer() {
	var whole []byte
	for {
		var err error
		if whole, err = c.readServer(whole[:0]); err != nil {
			return
		}
		if !c.outbox.add(whole) {
			c.proxy.options.Log.Noticef(logPrefix(c.raw)+"Slow Consumer Detected: MaxPending of %d Exceeded", PendingBytes)
			c.raw.CloseForMisuse("answers are not read") // the pending data is dropped
			return
		}
		if cap(whole) > copyBytes {
			whole = nil
		}
	}
}

// readServer reads the server's next line and the message after it.
func (c *producer) readServer(into []byte) ([]byte, error) {
	whole, err := readLine(c.serverReader, into, infoLine)
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(whole, []byte("INFO ")):
		return c.proxy.clientInfo(whole), nil
	case !bytes.HasPrefix(whole, []byte("MSG ")) && !bytes.HasPrefix(whole, []byte("HMSG ")):
		return whole, nil
	}
	w, ok := splitLine(whole)
	if !ok {
		return nil, errProtocol
	}
	before, _, size, ok := parseSizes(w.args(), whole[0] == 'H')
	if !ok || len(before) < 2 {
		return nil, errProtocol
	}
	c.countDelivery(string(before[1]))
	n := len(whole)
	if size > PendingBytes {
		return make([]byte, PendingBytes+1), nil // exceeds the pending limit of every client
	}
	whole = append(whole, make([]byte, size+len(crlf))...)
	_, err = io.ReadFull(c.serverReader, whole[n:])
	return whole, err
}

// forwardClient forwards data from the client to the server, within the limits.
func (c *producer) forwardClient() error {
	for {
		line, err := c.clientReader.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) || len(line) > controlLine {
			return errProtocol
		}
		if err != nil {
			return err
		}
		w, ok := splitLine(line)
		if !ok {
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			return errProtocol
		}
		args, verb := w.args(), strings.ToUpper(string(w.parts[0]))
		if verb != "PUB" && verb != "HPUB" {
			if err := c.waitLimit(c.proxy.otherLimiter, 1); err != nil {
				return err
			}
		}
		switch verb {
		case "PING":
			_, err = c.serverWriter.WriteString("PING\r\n")
		case "PONG":
			_, err = c.serverWriter.WriteString("PONG\r\n")
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
	m, ok := parsePublish(args, hasHeaders)
	if !ok {
		return errProtocol
	}
	switch {
	case strings.HasPrefix(m.subject, apiPrefix):
		return c.forwardRequest(m)
	case strings.HasPrefix(m.subject, inboxPrefix):
		if err := c.skipContent(m.size); err != nil {
			return err
		}
		return c.reportDenied(m.subject, "answers are the server's")
	case m.head > headerLimit:
		return c.refuseMessage(m, newRefusal(codeMessageTooLarge, "message has %d bytes of headers, at most %d are permitted",
			m.head, headerLimit))
	case strings.HasPrefix(m.subject, kvPrefix) && m.size > valueLimit:
		return c.refuseMessage(m, newRefusal(codeMessageTooLarge, "record has %d bytes, producers may store at most %d",
			m.size, valueLimit))
	}
	documents, staged := 1, false // documents of an atomic batch are stored with its last message
	if m.head > 0 {
		head, err := c.clientReader.Peek(m.head)
		if err != nil {
			return err
		}
		h := scanHeaders(head)
		staged = len(h.batch) > 0 && !h.commit
		var refused *refusal
		documents, refused = c.checkLimits(m, h)
		switch {
		case refused == nil:
		case staged && m.reply == "": // the response to the batch's last message contains the reason
			return c.skipContent(m.size)
		default:
			return c.refuseMessage(m, refused)
		}
		if err := c.waitForID(h); err != nil {
			return err
		}
	}
	if err := c.forwardMessage(m); err != nil || staged {
		return err
	}
	return c.awaitCapacity(m, documents)
}

// checkLimits applies the limits on ids and batches. It returns how many documents the message's batch has so far, or 1
// without a batch.
func (c *producer) checkLimits(m message, h headers) (documents int, refused *refusal) {
	if h.longestID > IDLimit {
		refused = newRefusal(codeMessageTooLarge, "message id (Nats-Msg-Id) has %d bytes, producers may use at most %d",
			h.longestID, IDLimit)
	}
	if len(h.batch) == 0 || len(h.batch) > batchIDLimit {
		return 1, refused
	}
	stream := c.proxy.streams.forSubject(m.subject)
	if stream == nil {
		return 1, newRefusal(codeAtomicDisabled, "atomic batches are for documents")
	}
	id := batchID{stream.Name, string(h.batch)}
	x := batchMessage{m.subject, int64(len(m.subject) + m.size), h.commit, refused}
	documents, abandoned, refused := c.proxy.batches.stage(c, id, x, time.Now())
	for _, x := range abandoned {
		c.proxy.abandonBatch(x)
	}
	return documents, refused
}

// waitForID waits for the rate limit on ids.
func (c *producer) waitForID(h headers) error {
	if h.longestID == 0 {
		return nil
	}
	return c.waitLimit(c.proxy.idLimiter, h.longestID+IDOverhead)
}

// waitLimit waits for a rate limit that all producers share.
func (c *producer) waitLimit(l *rate.Limiter, n int) error {
	if l.AllowN(time.Now(), n) {
		return nil
	}
	if err := c.serverWriter.Flush(); err != nil {
		return err
	}
	return l.WaitN(c.ctx, n)
}

// abandonBatch makes the server drop a batch: a message with a wrong sequence ends the batch, and has no effect if none
// exists.
func (p *Proxy) abandonBatch(x *batch) {
	_ = p.options.Documents.PublishMsg(&nats.Msg{Subject: x.subject, Header: nats.Header{
		"Nats-Batch-Id": {x.id.id}, "Nats-Batch-Sequence": {"1000000000"},
	}})
}

// forwardMessage forwards a message whose line has been read.
func (c *producer) forwardMessage(m message) error {
	c.scratch = m.line(c.scratch[:0])
	if _, err := c.serverWriter.Write(c.scratch); err != nil {
		return err
	}
	return c.copyContent(m.size, c.serverWriter)
}

// skipContent drops the content of a message.
func (c *producer) skipContent(size int) error { return c.copyContent(size, io.Discard) }

// copyContent copies the content of a message, and its end of line. It does not use io.CopyN: reading may flush the
// writer.
func (c *producer) copyContent(size int, to io.Writer) error {
	for size > 0 {
		if _, err := c.clientReader.Peek(1); err != nil { // fills the buffer
			return err
		}
		b, _ := c.clientReader.Peek(min(size, c.clientReader.Buffered()))
		if _, err := to.Write(b); err != nil {
			return err
		}
		size -= len(b)
		_, _ = c.clientReader.Discard(len(b))
	}
	end, err := c.clientReader.Peek(len(crlf))
	if err != nil {
		return err
	}
	if !bytes.Equal(end, crlf) {
		return errProtocol
	}
	_, _ = c.clientReader.Discard(len(crlf))
	_, err = to.Write(crlf)
	return err
}

// forwardRequest forwards a request to JetStream, or responds to it.
func (c *producer) forwardRequest(m message) error {
	if err := c.waitLimit(c.proxy.otherLimiter, 1); err != nil {
		return err
	}
	if m.size > requestLimit {
		return c.refuseMessage(m, newRefusal(codeMessageTooLarge, "request has %d bytes, at most %d are permitted",
			m.size, requestLimit))
	}
	body, err := c.clientReader.Peek(m.size)
	if err != nil {
		return err
	}
	if stream := c.proxy.streams.forRequest(m.subject); stream != nil {
		question := bytes.Clone(body[m.head:])
		if err := c.skipContent(m.size); err != nil {
			return err
		}
		return c.serveGet(stream, m, question)
	}
	if strings.HasPrefix(m.subject, infoPrefix) && m.size > 0 {
		// Its options would extend the response: all subjects, or all deleted messages, of a stream.
		if err := c.skipContent(m.size); err != nil {
			return err
		}
		return c.sendResponse(m, nil, nil)
	}
	return c.forwardMessage(m)
}

// sendResponse publishes a message of the proxy over the client's connection to the server.
func (c *producer) sendResponse(m message, head, payload []byte) error {
	m.head, m.size = len(head), len(head)+len(payload)
	c.scratch = append(append(append(m.line(c.scratch[:0]), head...), payload...), crlf...)
	_, err := c.serverWriter.Write(c.scratch)
	return err
}

// refuseMessage drops a message and responds with an error.
func (c *producer) refuseMessage(m message, why *refusal) error {
	if err := c.skipContent(m.size); err != nil {
		return err
	}
	if !strings.HasPrefix(m.reply, inboxPrefix) {
		return c.reportDenied(m.subject, why.Description)
	}
	if err := c.waitLimit(c.proxy.otherLimiter, 1); err != nil {
		return err
	}
	text, err := json.Marshal(struct {
		Error *refusal `json:"error"`
	}{why})
	if err != nil {
		return err
	}
	return c.sendResponse(message{subject: m.reply}, nil, text)
}

// reportDenied reports to the client that a message was dropped. Client libraries do not disconnect on this form of
// error.
func (c *producer) reportDenied(subject, why string) error {
	c.sendError(fmt.Sprintf("Permissions Violation for Publish to %q: %s", subject, why))
	return c.waitLimit(c.proxy.otherLimiter, 1)
}

// sendError sends a protocol error. If the outbox is full, the client does not read.
func (c *producer) sendError(text string) {
	c.outbox.add(fmt.Appendf(nil, "-ERR '%s'\r\n", text))
}
