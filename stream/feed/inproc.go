package feed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"loaderd/stream/conn"
)

// inprocClient is a connection to the embedded server, for one subscription. It implements the part of the NATS
// protocol that this needs.
type inprocClient struct {
	conn    net.Conn
	writeMu sync.Mutex

	// Used by the reader only.
	block     *Block
	from, to  int    // read and not yet delivered: block.bytes[from:to]
	needed    int    // minimum bytes of the block that the next message needs
	subject   string // of the last message: most have the same
	lastCount int    // how many messages the last call of take returned
	hasInfo   bool   // the server has sent INFO
	hasPong   bool   // ... and responded to the first PING
}

const (
	// lineBytes bounds a line of the protocol, except for those in which a server of a cluster lists the other servers.
	lineBytes    = 4 << 10
	maxLineBytes = 1 << 20
)

var (
	errInvalidLine = errors.New("the server sent what is no message")
	pong           = []byte("PONG\r\n")
)

// connectOptions is the CONNECT message of a client.
type connectOptions struct {
	Verbose      bool   `json:"verbose"`
	Pedantic     bool   `json:"pedantic"`
	User         string `json:"user,omitempty"`
	Password     string `json:"pass,omitempty"`
	Name         string `json:"name"`
	Lang         string `json:"lang"`
	Version      string `json:"version"`
	Protocol     int    `json:"protocol"`
	Headers      bool   `json:"headers"`
	NoResponders bool   `json:"no_responders"`
}

// openInprocClient connects and subscribes.
func openInprocClient(o conn.Options, subject string) (_ *inprocClient, err error) {
	raw, err := o.Server.InProcessConn()
	if err != nil {
		return nil, err
	}
	l := &inprocClient{conn: raw, block: newBlock(0), needed: lineBytes}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	who := connectOptions{Name: "loaderd", Lang: nats.LangString, Version: nats.Version, Protocol: 1, Headers: true,
		NoResponders: true}
	if o.Login != nil {
		who.User, who.Password = o.Login()
	}
	said, err := json.Marshal(who)
	if err != nil {
		return nil, err
	}
	if err := raw.SetReadDeadline(time.Now().Add(conn.ConnectTimeout)); err != nil {
		return nil, err
	}
	if err := l.readUntil(&l.hasInfo); err != nil {
		return nil, err
	}
	if err := l.write(fmt.Appendf(nil, "CONNECT %s\r\nSUB %s 1\r\nPING\r\n", said, subject)); err != nil {
		return nil, err
	}
	if err := l.readUntil(&l.hasPong); err != nil {
		return nil, err
	}
	return l, raw.SetReadDeadline(time.Time{})
}

// readUntil reads until said is set. The server sends no message before one is requested.
func (l *inprocClient) readUntil(said *bool) error {
	for {
		if _, err := l.parseDeliveries(); err != nil || *said {
			return err
		}
		if err := l.fill(); err != nil {
			return err
		}
	}
}

// read returns the next messages, at least one unless there is an error.
func (l *inprocClient) read() ([]Delivery, error) {
	for {
		if some, err := l.parseDeliveries(); len(some) > 0 || err != nil {
			return some, err
		}
		if err := l.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads more bytes, into another block if the incomplete message does not fit into this one.
func (l *inprocClient) fill() error {
	if l.from+l.needed > len(l.block.bytes) {
		next := newBlock(l.needed)
		l.from, l.to = 0, copy(next.bytes, l.block.bytes[l.from:l.to])
		l.block.Release()
		l.block = next
	}
	n, err := l.conn.Read(l.block.bytes[l.to:])
	l.to += n
	return err
}

// parseDeliveries returns the messages that were read completely.
func (l *inprocClient) parseDeliveries() (some []Delivery, err error) {
	for {
		b := l.block.bytes[l.from:l.to]
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			if l.needed = max(lineBytes, 2*len(b)); l.needed > maxLineBytes {
				return some, errInvalidLine
			}
			return some, nil
		}
		line := bytes.TrimSuffix(b[:end], []byte("\r"))
		verb, rest, _ := bytes.Cut(line, []byte(" "))
		n := end + 1
		switch string(verb) {
		case "MSG", "HMSG":
			d, size, err := l.parseMessage(rest, b[n:], len(verb) == len("HMSG"))
			if n += size + len("\r\n"); err != nil || n > len(b) {
				l.needed = n
				return some, err
			}
			if some == nil {
				some = make([]Delivery, 0, max(l.lastCount, 1))
			}
			some = append(some, d)
			l.lastCount = len(some)
		case "PING":
			// In another goroutine, because the server may be writing too, and the reader must not wait for that. A server
			// that gets no response closes the connection.
			go func() { _ = l.write(pong) }()
		case "INFO":
			l.hasInfo = true
		case "PONG":
			l.hasPong = true
		case "-ERR":
			return some, fmt.Errorf("the server reports %s", rest)
		}
		l.from += n
	}
}

// parseMessage parses a message whose line is "<subject> <subscription> [<reply>] [<bytes of headers>] <bytes>", and
// whose content is at the start of behind. It returns the size of the content even if not all of it was read.
func (l *inprocClient) parseMessage(line, behind []byte, headers bool) (d Delivery, size int, err error) {
	var at [6][]byte // one more than a message may have
	words := at[:0]
	for word := range bytes.SplitSeq(line, []byte(" ")) {
		if len(words) < len(at) {
			words = append(words, word)
		}
	}
	numbers := 1
	if headers {
		numbers = 2
	}
	if n := len(words) - numbers; n < 2 || n > 3 {
		return d, 0, errInvalidLine
	}
	size, err = strconv.Atoi(string(words[len(words)-1]))
	var head int
	if headers && err == nil {
		head, err = strconv.Atoi(string(words[len(words)-2]))
	}
	if err != nil || head < 0 || head > size {
		return d, 0, errInvalidLine
	}
	if len(behind) < size {
		return d, size, nil
	}
	if string(words[0]) != l.subject {
		l.subject = string(words[0])
	}
	d = Delivery{Subject: l.subject, Data: behind[head:size:size], Block: l.block}
	if len(words)-numbers == 3 {
		d.Reply = words[2]
	}
	if headers {
		d.RawHeaders = behind[:head:head]
	}
	d.Size = len(d.Subject) + len(d.Reply) + size
	l.block.retain()
	return d, size, nil
}

func (l *inprocClient) write(b []byte) error {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	if err := l.conn.SetWriteDeadline(time.Now().Add(conn.ConnectTimeout)); err != nil {
		return err
	}
	_, err := l.conn.Write(b)
	return err
}

func (l *inprocClient) close() { _ = l.conn.Close() }
