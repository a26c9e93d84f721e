package stream

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"github.com/nats-io/nats.go"
)

// Headers of a document's message. Nats-Msg-Id is the producer's deduplication key and, without Loaderd-Id,
// also the document's id.
const (
	HeaderContentType = "Content-Type"
	HeaderEncoding    = "Content-Encoding" // of the payload: gzip, zstd or identity
	HeaderID          = "Loaderd-Id"
	// the document's name in the ledger, if that is not an id: names need not be unique
	HeaderLabel     = "Loaderd-Label"
	HeaderPath      = "Loaderd-Path"
	HeaderDomain    = "Loaderd-Domain"
	HeaderEmbedding = "Loaderd-Embedding" // base64 of the document's embedding: int8, or float32 little-endian
	HeaderTokenizer = "Loaderd-Tokenizer" // fingerprint of the tokenizer that produced the tokens
	// for tokens: lengths of runs, alternately with and without a loss, starting with one that has a loss: 0,120,34
	HeaderLoss   = "Loaderd-Loss"
	HeaderWeight = "Loaderd-Weight" // factor of the loss of the document's tokens, 0 or more
	HeaderMeta   = "Loaderd-Meta"   // for a text or tokens: a JSON object, as "meta" of a JSON document
	// position in the input (from 0), a blank, and the input's name: for the publisher only
	HeaderInput = "Loaderd-Input"
	HeaderTrace = "traceparent" // W3C trace context of a document that is traced
)

// Content types of a document's message. Without the header it is text.
const (
	TypeText = "text/plain" // UTF-8
	// {"id", "text", "weight", "meta": {...}}, or "parts": [{"text", "loss"}, ...] instead of "text"
	TypeJSON   = "application/json"
	TypeTokens = "application/vnd.loaderd.tokens"      // little-endian int32 ids, already tokenized
	TypeArrow  = "application/vnd.apache.arrow.stream" // record batches of tokenized documents, one row each
)

// Message is a document from a producer. Only Subject and Data are required.
type Message struct {
	Subject     string // docs.<source>
	ID          string // producer's id: the same id is stored once within the server's dedupe window
	Name        string // the document's own id, if it differs from ID
	Label       string // the document's name in the ledger; need not be unique
	Path        string
	Domain      string
	ContentType string   // one of the Type constants; empty is text
	Tokenizer   string   // fingerprint, required with TypeTokens
	Trace       string   // traceparent of a document that is traced
	Loss        []int32  // for tokens: lengths of runs, alternately with and without a loss; nil: all have a loss
	Weight      *float32 // factor of the loss; nil is 1
	Meta        string   // for a text or tokens: a JSON object
	Input       string   // position in the producer's input, a blank, and the input's name
	Data        []byte
}

// NATS returns the message in its wire form. Data is not copied.
func (m Message) NATS() *nats.Msg {
	msg := &nats.Msg{Subject: m.Subject, Data: m.Data}
	set := func(name, value string) {
		if value == "" {
			return
		}
		if msg.Header == nil {
			msg.Header = make(nats.Header, 4)
		}
		msg.Header.Set(name, value)
	}
	set(nats.MsgIdHdr, m.ID)
	set(HeaderID, m.Name)
	set(HeaderLabel, m.Label)
	set(HeaderPath, m.Path)
	set(HeaderDomain, m.Domain)
	set(HeaderTokenizer, m.Tokenizer)
	set(HeaderTrace, m.Trace)
	set(HeaderMeta, m.Meta)
	set(HeaderInput, m.Input)
	if m.Loss != nil {
		set(HeaderLoss, encodeRuns(m.Loss))
	}
	if m.Weight != nil {
		set(HeaderWeight, strconv.FormatFloat(float64(*m.Weight), 'g', -1, 32))
	}
	if m.ContentType != "" && m.ContentType != TypeText {
		set(HeaderContentType, m.ContentType)
	} else if bytes.HasPrefix(bytes.TrimLeft(m.Data, " \t\r\n"), []byte("{")) {
		set(HeaderContentType, TypeText) // otherwise it would be decoded as JSON
	}
	return msg
}

func encodeRuns(lengths []int32) string {
	var b []byte
	for i, n := range lengths {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return string(b)
}

// AppendTokens appends ids to b in the format of TypeTokens.
func AppendTokens(b []byte, ids []int32) []byte {
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	return b
}
